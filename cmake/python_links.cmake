# python_links.cmake - cmake -DFROM=python -DTO=build/python -P: links TO/caffe
# file by file to FROM/caffe, and drops links to files that are gone.
file(GLOB_RECURSE sources RELATIVE ${FROM} ${FROM}/caffe/*.py
     ${FROM}/caffe/*.npy)
file(GLOB_RECURSE links RELATIVE ${TO} ${TO}/caffe/*)
foreach(link ${links})
  if(IS_SYMLINK ${TO}/${link} AND NOT EXISTS ${FROM}/${link})
    file(REMOVE ${TO}/${link})
  endif()
endforeach()
foreach(file ${sources})
  get_filename_component(folder ${TO}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  if(NOT EXISTS ${TO}/${file})
    file(CREATE_LINK ${FROM}/${file} ${TO}/${file} SYMBOLIC)
  endif()
endforeach()
