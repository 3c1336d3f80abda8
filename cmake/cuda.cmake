# cuda.cmake - the CUDA device.
#
#   CORTADO_CUDA=AUTO   built where nvcc and cuDNN 9's headers are (the default)
#   CORTADO_CUDA=ON     the same, and an error where they are not
#   CORTADO_CUDA=OFF    not built
#
# The run-time library is linked in whole; cuDNN, cuBLASLt and NCCL are opened
# when a GPU is asked for.  So the program starts on machines that have none.
set(CORTADO_CUDA "AUTO" CACHE STRING "AUTO, ON or OFF")
set_property(CACHE CORTADO_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CORTADO_CUDA_ARCHITECTURES "all-major" CACHE STRING
    "GPUs to build for, as CMake's CUDA_ARCHITECTURES takes them")
set(CORTADO_CUDA_FOUND FALSE)

if(NOT CORTADO_CUDA STREQUAL OFF AND NOT CORTADO_SANITIZE)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(CORTADO_NVCC NAMES nvcc PATHS /usr/local/cuda/bin)
    mark_as_advanced(CORTADO_NVCC)
    if(CORTADO_NVCC)
      set(CMAKE_CUDA_COMPILER ${CORTADO_NVCC})
    endif()
  endif()
  # all-major is known to CMake 3.23 and later, and nvcc 11.5 and later.
  if(CORTADO_CUDA_ARCHITECTURES STREQUAL "all-major" AND
     CMAKE_VERSION VERSION_LESS 3.23)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${CORTADO_CUDA_ARCHITECTURES})
  endif()
  if(CMAKE_CUDA_COMPILER)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    find_path(CUDNN_INCLUDE NAMES cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_path(NCCL_INCLUDE NAMES nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CUDAToolkit_FOUND AND CUDNN_INCLUDE)
      set(CORTADO_CUDA_FOUND TRUE)
    endif()
  endif()
  if(NOT CORTADO_CUDA_FOUND)
    set(lost "nvcc or cuDNN's headers are missing: no GPU support")
    if(CORTADO_CUDA STREQUAL ON)
      message(FATAL_ERROR "${lost}; install them or say -DCORTADO_CUDA=OFF")
    endif()
    message(STATUS "without CUDA: ${lost}")
  endif()
endif()

# Only what is written in CUDA C, or calls its libraries, sees their headers.
function(cortado_cuda_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES INCLUDE_DIRECTORIES
    "${CUDAToolkit_INCLUDE_DIRS};${CUDNN_INCLUDE};$<$<BOOL:${NCCL_INCLUDE}>:${NCCL_INCLUDE}>")
endfunction()

if(CORTADO_CUDA_FOUND)
  target_compile_definitions(cortado_dependencies INTERFACE CT_HAVE_CUDA=1)
  target_link_libraries(cortado_dependencies INTERFACE CUDA::cudart_static
                        ${CMAKE_DL_LIBS} rt)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
endif()
