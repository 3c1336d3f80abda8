# embed.cmake - the live page as C arrays, so that the program carries it.
#
#     cmake -DOUT=assets.c -DFILES="a.js b.css ..." -P embed.cmake
#
# index.html is served as "/", another file under its name in lower case.
separate_arguments(FILES UNIX_COMMAND "${FILES}")
set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")
set(arrays "")
set(table "")
set(n 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  get_filename_component(kind ${file} LAST_EXT)
  string(SUBSTRING "${kind}" 1 -1 kind)
  string(TOLOWER "/${name}" path)
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays
    "static const unsigned char file_${n}[] = {\n${bytes}\n};\n\n")
  string(APPEND table
    "    { \"${path}\", \"${type_${kind}}\", file_${n}, sizeof(file_${n}) },\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/embed.cmake. */
#include <string.h>

#include \"observe/board_inner.h\"

${arrays}static const struct board_asset assets[] = {
${table}};

const struct board_asset *board_asset_find(const char *path)
{
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
        if (strcmp(assets[i].path, path) == 0)
            return &assets[i];
    return NULL;
}
")
