# mpi.cmake - the MPI that transport/mpi.c is built on.
#
#   CORTADO_MPI=openmpi   Open MPI (the default); MPICH where that is missing
#   CORTADO_MPI=mpich     MPICH
#   CORTADO_MPI=OFF       none: the program trains in one process
#
# Sets CORTADO_MPI_FOUND to `openmpi`, `mpich` or nothing, and for each MPI
# that is there MPI_<name>_FLAGS, _LIBRARY and _EXEC.  The tests run with every
# MPI found.  Nothing but transport/mpi.c sees the header mpi.h.
set(CORTADO_MPI "openmpi" CACHE STRING "openmpi, mpich or OFF")
set_property(CACHE CORTADO_MPI PROPERTY STRINGS openmpi mpich OFF)

# Asks a compiler wrapper (or pkg-config) of MPI `name`; ARGN: library names.
# Nothing is cached, so an MPI that is installed later is found.
function(cortado_find_mpi name package)
  find_program(MPI_${name}_CC NAMES mpicc.${name} mpicc NO_CACHE)
  find_program(MPI_${name}_EXEC NAMES mpiexec.${name} mpirun.${name} mpiexec
               mpirun NO_CACHE)
  set(shown "")
  if(MPI_${name}_CC)
    execute_process(COMMAND ${MPI_${name}_CC} -show OUTPUT_VARIABLE shown
                    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT shown)
    pkg_check_modules(PC_${name} QUIET ${package})
    list(TRANSFORM PC_${name}_LIBRARY_DIRS PREPEND -L)
    string(JOIN " " shown ${PC_${name}_CFLAGS} ${PC_${name}_LIBRARY_DIRS})
  endif()
  separate_arguments(words UNIX_COMMAND "${shown}")
  set(includes "")
  set(folders "")
  foreach(word ${words})
    if(word MATCHES "^-I(.+)")
      list(APPEND includes ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      list(APPEND folders ${CMAKE_MATCH_1})
    endif()
  endforeach()
  find_path(MPI_${name}_HEADER NAMES mpi.h HINTS ${includes} NO_CACHE)
  find_library(MPI_${name}_LIBRARY NAMES ${ARGN} HINTS ${folders} NO_CACHE)
  # Plain `mpicc` may be the other one's: its header tells.
  if(MPI_${name}_HEADER AND MPI_${name}_LIBRARY)
    file(STRINGS ${MPI_${name}_HEADER}/mpi.h mark REGEX
         "define (OMPI_MAJOR_VERSION|OPEN_MPI|MPICH_NUMVERSION|MPICH_NAME)")
    set(is openmpi)
    if("${mark}" MATCHES "MPICH")
      set(is mpich)
    endif()
    if(is STREQUAL name)
      set(flags "")
      foreach(folder ${includes} ${MPI_${name}_HEADER})
        list(APPEND flags -isystem ${folder})
      endforeach()
      set(MPI_${name}_FLAGS ${flags} PARENT_SCOPE)
      set(MPI_${name}_LIBRARY ${MPI_${name}_LIBRARY} PARENT_SCOPE)
      set(MPI_${name}_EXEC ${MPI_${name}_EXEC} PARENT_SCOPE)
    endif()
  endif()
endfunction()

cortado_find_mpi(openmpi ompi-c mpi)
cortado_find_mpi(mpich mpich mpich)

set(CORTADO_MPI_FOUND "")
if(CORTADO_MPI STREQUAL "openmpi" OR CORTADO_MPI STREQUAL "mpich")
  foreach(name ${CORTADO_MPI} openmpi mpich)
    if(NOT CORTADO_MPI_FOUND AND MPI_${name}_FLAGS)
      set(CORTADO_MPI_FOUND ${name})
    endif()
  endforeach()
  if(NOT CORTADO_MPI_FOUND)
    message(STATUS "without MPI: no training across processes "
                   "(package libopenmpi-dev)")
  elseif(NOT CORTADO_MPI_FOUND STREQUAL CORTADO_MPI)
    message(STATUS "${CORTADO_MPI} is missing: using ${CORTADO_MPI_FOUND}")
  endif()
elseif(CORTADO_MPI)
  message(FATAL_ERROR "CORTADO_MPI is openmpi, mpich or OFF, "
                      "not ${CORTADO_MPI}")
endif()

# Programs on the static library get the MPI it was built with, unless they
# bring transport/mpi.c built with another (property CORTADO_OTHER_MPI).
if(CORTADO_MPI_FOUND)
  target_link_libraries(cortado_dependencies INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:CORTADO_OTHER_MPI>>>:${MPI_${CORTADO_MPI_FOUND}_LIBRARY}>)
endif()
