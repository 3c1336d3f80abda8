# dependencies.cmake - the outside libraries, all in one interface target.
#
# Required: protobuf-c and its compiler, OpenBLAS, threads.  Every other one
# switches a feature off with a message when it is missing.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP COMPONENTS C)

add_library(cortado_dependencies INTERFACE)
target_link_libraries(cortado_dependencies INTERFACE Threads::Threads m)

pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C NAMES protoc-c)
if(NOT PROTOC_C)
  message(FATAL_ERROR "protoc-c is missing: install protobuf-c-compiler")
endif()
target_link_libraries(cortado_dependencies INTERFACE PkgConfig::PROTOBUF_C)

if(OpenMP_C_FOUND)
  target_link_libraries(cortado_dependencies INTERFACE OpenMP::OpenMP_C)
else()
  message(STATUS "OpenMP is missing: the CPU loops run on one thread")
endif()

find_library(OPENBLAS_LIBRARY NAMES openblas)
find_path(OPENBLAS_INCLUDE NAMES cblas.h PATH_SUFFIXES openblas
          openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
if(NOT OPENBLAS_LIBRARY OR NOT OPENBLAS_INCLUDE)
  message(FATAL_ERROR "OpenBLAS is missing: install libopenblas-dev")
endif()
target_link_libraries(cortado_dependencies INTERFACE ${OPENBLAS_LIBRARY})
target_include_directories(cortado_dependencies SYSTEM INTERFACE
                           ${OPENBLAS_INCLUDE})

# An optional library: NAME, what is lost without it, the Debian package.
function(cortado_optional name found loses package)
  option(CORTADO_${name} "Use ${name}" ON)
  if(CORTADO_${name} AND ${found})
    target_compile_definitions(cortado_dependencies INTERFACE
                               CT_HAVE_${name}=1)
    target_link_libraries(cortado_dependencies INTERFACE ${ARGN})
  else()
    message(STATUS "without ${name}: ${loses} (package ${package})")
  endif()
endfunction()

find_library(DNNL_LIBRARY NAMES dnnl)
find_path(DNNL_INCLUDE NAMES oneapi/dnnl/dnnl.h)
if(DNNL_LIBRARY AND DNNL_INCLUDE)
  set(DNNL_OK TRUE)
endif()
cortado_optional(ONEDNN DNNL_OK "convolutions go through GEMM, slower"
                 libdnnl-dev ${DNNL_LIBRARY})

pkg_search_module(HDF5 IMPORTED_TARGET hdf5-serial hdf5)
cortado_optional(HDF5 HDF5_FOUND "no HDF5 data and snapshots" libhdf5-dev
                 PkgConfig::HDF5)
if(HDF5_FOUND)
  find_library(HDF5_HL_LIBRARY NAMES hdf5_serial_hl hdf5_hl)
endif()

find_library(LMDB_LIBRARY NAMES lmdb)
find_path(LMDB_INCLUDE NAMES lmdb.h)
if(LMDB_LIBRARY AND LMDB_INCLUDE)
  set(LMDB_OK TRUE)
endif()
cortado_optional(LMDB LMDB_OK "no LMDB databases" liblmdb-dev ${LMDB_LIBRARY})

find_library(LEVELDB_LIBRARY NAMES leveldb)
find_path(LEVELDB_INCLUDE NAMES leveldb/c.h)
if(LEVELDB_LIBRARY AND LEVELDB_INCLUDE)
  set(LEVELDB_OK TRUE)
endif()
cortado_optional(LEVELDB LEVELDB_OK "no LevelDB databases" libleveldb-dev
                 ${LEVELDB_LIBRARY})

pkg_check_modules(TURBOJPEG IMPORTED_TARGET libturbojpeg)
cortado_optional(JPEG TURBOJPEG_FOUND "no JPEG images" libturbojpeg0-dev
                 PkgConfig::TURBOJPEG)
pkg_check_modules(PNG IMPORTED_TARGET libpng)
cortado_optional(PNG PNG_FOUND "no PNG images" libpng-dev PkgConfig::PNG)
pkg_check_modules(TIFF IMPORTED_TARGET libtiff-4)
cortado_optional(TIFF TIFF_FOUND "no TIFF images" libtiff-dev PkgConfig::TIFF)
pkg_check_modules(WEBP IMPORTED_TARGET libwebp)
cortado_optional(WEBP WEBP_FOUND "no WebP images" libwebp-dev PkgConfig::WEBP)
pkg_check_modules(SODIUM IMPORTED_TARGET libsodium)
cortado_optional(SODIUM SODIUM_FOUND "no elastic jobs" libsodium-dev
                 PkgConfig::SODIUM)
find_package(GIF QUIET) # giflib has no pkg-config file
cortado_optional(GIF GIF_FOUND "no GIF images" libgif-dev GIF::GIF)
