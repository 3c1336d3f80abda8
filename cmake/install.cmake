# install.cmake - what `make install` puts where.
#
# The program, the shared library with its public headers (the one generated
# from caffe.proto included), files for pkg-config and find_package(cortado),
# the man page, shell completion and the licence.
include(CMakePackageConfigHelpers)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cortado)

# The shared library shows what is marked CT_API and the descriptors of Caffe's
# messages, which ct_text_read() and its kin take; tools/check_exports looks.
set_target_properties(cortado_proto PROPERTIES C_VISIBILITY_PRESET default)
target_link_options(libcortado PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(NOT CORTADO_SANITIZE) # a sanitizer's functions are the program's
  target_link_options(libcortado PRIVATE -Wl,-z,defs)
endif()
set_target_properties(libcortado PROPERTIES
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)

# The public headers name protobuf-c's types, so users compile against it.
set_target_properties(libcortado PROPERTIES EXPORT_NAME cortado)
target_include_directories(libcortado INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libcortado INTERFACE
  $<INSTALL_INTERFACE:PkgConfig::PROTOBUF_C>)
install(TARGETS libcortado EXPORT cortado
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET cortado)
  install(TARGETS cortado RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Caffe's names are links to the program, so that scripts written for Caffe
# run.  A program of that name that somebody else installed stays.
option(CORTADO_CAFFE_NAMES "Install links under the names of Caffe's tools" ON)
if(TARGET cortado AND CORTADO_CAFFE_NAMES)
  install(CODE "
    set(bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    foreach(name caffe compute_image_mean convert_annoset convert_cifar_data
            convert_imageset convert_mnist_data convert_mnist_siamese_data
            extract_features get_image_size partition_data
            upgrade_net_proto_binary upgrade_net_proto_text
            upgrade_solver_proto_text)
      set(is)
      if(IS_SYMLINK \${bin}/\${name})
        file(READ_SYMLINK \${bin}/\${name} is)
      elseif(EXISTS \${bin}/\${name})
        set(is another)
      endif()
      if(is AND NOT is STREQUAL cortado)
        message(STATUS \"Left alone: \${bin}/\${name} is another program\")
      else()
        message(STATUS \"Linking: \${bin}/\${name}\")
        file(CREATE_LINK cortado \${bin}/\${name} SYMBOLIC)
      endif()
    endforeach()")
endif()

install(DIRECTORY include/cortado DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/cortado/caffe.pb-c.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cortado)

install(EXPORT cortado NAMESPACE cortado:: DESTINATION ${PACKAGE_DIR}
        FILE cortadoTargets.cmake)
configure_package_config_file(cmake/cortadoConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cortadoConfig.cmake
  INSTALL_DESTINATION ${PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cortadoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cortadoConfig.cmake
              ${PROJECT_BINARY_DIR}/cortadoConfigVersion.cmake
        DESTINATION ${PACKAGE_DIR})

# The prefix in cortado.pc follows the file itself, because `cmake --install
# --prefix` decides where that is after this has run.
file(RELATIVE_PATH PC_PREFIX
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
configure_file(cmake/cortado.pc.in ${PROJECT_BINARY_DIR}/cortado.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cortado.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES docs/reference/cortado.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES tools/completion/cortado.bash RENAME cortado
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES tools/completion/cortado.zsh RENAME _cortado
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES tools/completion/cortado.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
