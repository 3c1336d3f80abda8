# python.cmake - the Python package `caffe` and what it needs of the build.
#
#   build/python/caffe          the package as tests see it: links to python/
#   build/python/caffe/proto    caffe_pb2.py, generated from caffe.proto
#   build/libcortado_python.so  an interpreter for the program `cortado`
#
# A Python with numpy is looked for as CORTADO_PYTHON, /usr/bin/python3 and the
# python3 in PATH.  Each missing part is said and left out.
option(CORTADO_PYTHON_PACKAGE "Build the Python package" ON)
set(CORTADO_PYTHON "" CACHE FILEPATH "The python3 to build and test with")

# Facts that some C files of the library are told.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/solver/bindings.c
  ${PROJECT_SOURCE_DIR}/src/onnx/graph.c
  TARGET_DIRECTORY cortado_objects
  PROPERTIES COMPILE_DEFINITIONS CT_VERSION="${PROJECT_VERSION}")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/layers/python.c
  TARGET_DIRECTORY cortado_objects
  PROPERTIES COMPILE_DEFINITIONS CT_LIBDIR="${CMAKE_INSTALL_LIBDIR}")
target_link_libraries(cortado_dependencies INTERFACE ${CMAKE_DL_LIBS})

if(NOT CORTADO_PYTHON_PACKAGE)
  return()
endif()

find_program(PATH_PYTHON NAMES python3)
set(PYTHON_OK "")
foreach(candidate ${CORTADO_PYTHON} /usr/bin/python3 ${PATH_PYTHON})
  if(NOT PYTHON_OK AND EXISTS ${candidate})
    execute_process(COMMAND ${candidate} -c "import numpy"
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(PYTHON_OK ${candidate})
    endif()
  endif()
endforeach()
if(NOT PYTHON_OK)
  message(STATUS "without Python: no python3 has numpy (package python3-numpy)")
  if(CORTADO_TESTS)
    add_test(NAME python.package COMMAND ${CMAKE_COMMAND} -E echo
      "skipped: no python3 has numpy (package python3-numpy)")
    set_tests_properties(python.package PROPERTIES
      SKIP_REGULAR_EXPRESSION "skipped:")
  endif()
  return()
endif()
set(Python3_EXECUTABLE ${PYTHON_OK})
find_package(Python3 COMPONENTS Interpreter
             OPTIONAL_COMPONENTS Development.Embed)

# The package.  Source files are linked, so that an edit counts at once.
set(PYTHON_DIR ${PROJECT_BINARY_DIR}/python)
set(PYTHON_GENERATED "")
find_program(PROTOC NAMES protoc)
if(PROTOC)
  set(PYTHON_GENERATED ${PYTHON_DIR}/caffe/proto/caffe_pb2.py)
  add_custom_command(
    OUTPUT ${PYTHON_GENERATED}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PYTHON_DIR}/caffe/proto
    COMMAND ${PROTOC} --python_out=${PYTHON_DIR}/caffe/proto
            -I${PROJECT_SOURCE_DIR}/src/proto caffe.proto
    DEPENDS ${PROJECT_SOURCE_DIR}/src/proto/caffe.proto
    VERBATIM)
else()
  message(STATUS "without protoc: no caffe.proto.caffe_pb2, caffe.io, "
                 "caffe.NetSpec (package protobuf-compiler)")
endif()
add_custom_target(python_package ALL
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/python
          -DTO=${PYTHON_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/python_links.cmake
  DEPENDS ${PYTHON_GENERATED}
  VERBATIM)
add_dependencies(python_package libcortado)

# Where python3 looks below a prefix: Debian says dist-packages.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c
    "import sys; print('lib/python%d.%d/' % sys.version_info[:2] + ('dist-packages' if any('dist-packages' in p for p in sys.path) else 'site-packages'))"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CORTADO_PYTHON_DIR ${found} CACHE STRING
    "Where the package is installed, below the prefix")
install(DIRECTORY python/caffe DESTINATION ${CORTADO_PYTHON_DIR}
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
if(PYTHON_GENERATED)
  install(FILES ${PYTHON_GENERATED}
          DESTINATION ${CORTADO_PYTHON_DIR}/caffe/proto)
endif()
# Caffe has its scripts beside the package; they belong to no one's PATH.
install(PROGRAMS python/classify.py python/detect.py python/draw_net.py
                 python/parse_log.py python/train.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/cortado/python)

# The plug-in, which calls the library's functions in the program.
if(Python3_Development.Embed_FOUND)
  file(RELATIVE_PATH beside ${CMAKE_INSTALL_FULL_LIBDIR}/cortado
       ${CMAKE_INSTALL_PREFIX}/${CORTADO_PYTHON_DIR})
  add_library(cortado_python MODULE
              ${PROJECT_SOURCE_DIR}/src/plugins/python/interpreter.c)
  target_link_libraries(cortado_python PRIVATE Python3::Python
                        ${CMAKE_DL_LIBS})
  target_compile_options(cortado_python PRIVATE -Wall -Wextra -Wconversion
                         -Wshadow)
  target_compile_definitions(cortado_python PRIVATE _GNU_SOURCE
                             CT_PYTHON_BESIDE="python:${beside}")
  if(CORTADO_SANITIZE MATCHES "thread")
    target_compile_options(cortado_python PRIVATE -fsanitize=thread -g1)
    target_link_options(cortado_python PRIVATE -fsanitize=thread)
  endif()
  if(CORTADO_TESTS AND NOT CORTADO_SANITIZE MATCHES "address")
    add_test(NAME cli.python COMMAND ${PROJECT_SOURCE_DIR}/tests/cli/python
                                     ${PROJECT_BINARY_DIR})
    set_tests_properties(cli.python PROPERTIES SKIP_RETURN_CODE 77)
    add_dependencies(thread_tests cortado_python python_package)
  endif()
  install(TARGETS cortado_python
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cortado)
else()
  message(STATUS "without the Python plug-in: the program `cortado` runs no "
                 "Python layers (package python3-dev)")
endif()

# Ranks that come and go also under sanitizers, whose library has to be there
# before the interpreter's.  What an interpreter never frees is not ours.
if(CORTADO_TESTS AND CORTADO_SANITIZE MATCHES "address|thread")
  string(REGEX MATCH "^." first ${CMAKE_MATCH_0})
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${first}san.so
                  OUTPUT_VARIABLE sanitizer OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(IS_ABSOLUTE "${sanitizer}")
    add_test(NAME python.elastic COMMAND ${Python3_EXECUTABLE} -B -m unittest
             test_elastic.py
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/python/tests)
    set_tests_properties(python.elastic PROPERTIES TIMEOUT 600 ENVIRONMENT
      "PYTHONPATH=${PYTHON_DIR};CORTADO_BUILD=${PROJECT_BINARY_DIR};GLOG_minloglevel=2;CORTADO_TUNE=off;LD_PRELOAD=${sanitizer};ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:allocator_may_return_null=1")
    add_dependencies(thread_tests libcortado python_package)
  endif()
endif()

# Tests: one ctest entry a file.  They need an interpreter that can load the
# library, which one built with sanitizers is not.
if(CORTADO_TESTS AND NOT CORTADO_SANITIZE)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import pytest"
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  set(PYTHON_MPIRUN "")
  if(CORTADO_MPI_FOUND AND MPI_${CORTADO_MPI_FOUND}_EXEC)
    set(PYTHON_MPIRUN ${MPI_${CORTADO_MPI_FOUND}_EXEC})
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/tests/test_*.py)
  foreach(file ${tests})
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE "test_" "" name ${name})
    get_filename_component(file ${file} NAME)
    if(failed)
      set(how -m unittest -b ${file})
    else()
      set(how -m pytest -q -p no:cacheprovider ${file})
    endif()
    add_test(NAME python.${name} COMMAND ${Python3_EXECUTABLE} -B ${how}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/python/tests)
    set_tests_properties(python.${name} PROPERTIES TIMEOUT 300 ENVIRONMENT
      "PYTHONPATH=${PYTHON_DIR};CORTADO_BUILD=${PROJECT_BINARY_DIR};GLOG_minloglevel=2;CORTADO_TUNE=off;CORTADO_MPIRUN=${PYTHON_MPIRUN}")
  endforeach()
  # Exported models: small ones in each runtime, or skipped where this Python
  # does not have it; whole nets in all that are there; PyTorch's, imported.
  foreach(part import checker opencv onnxruntime)
    add_test(NAME onnx.small_${part} COMMAND ${Python3_EXECUTABLE} -B
             ${PROJECT_SOURCE_DIR}/tests/onnx/run ${PROJECT_BINARY_DIR}
             --only=${part})
  endforeach()
  add_test(NAME onnx.nets COMMAND ${Python3_EXECUTABLE} -B
           ${PROJECT_SOURCE_DIR}/tests/onnx/sweep ${PROJECT_BINARY_DIR} --short)
  add_test(NAME onnx.foreign COMMAND ${Python3_EXECUTABLE} -B
           ${PROJECT_SOURCE_DIR}/tests/onnx/foreign ${PROJECT_BINARY_DIR}
           --short)
  set_tests_properties(onnx.small_import onnx.small_checker onnx.small_opencv
    onnx.small_onnxruntime
    onnx.nets onnx.foreign PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "CORTADO_TUNE=off;OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1")
endif()
