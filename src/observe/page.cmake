# page.cmake - the live page, inside the program.  Included by src/, whose
# target it belongs to.
set(PAGE web/index.html web/style.css web/icon.svg web/app.js web/charts.js
    web/data.js web/layers.js web/log.js web/net.js web/ranks.js web/roads.js)
list(TRANSFORM PAGE PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(APPEND PAGE ${PROJECT_SOURCE_DIR}/third_party/uplot/uPlot.iife.min.js
     ${PROJECT_SOURCE_DIR}/third_party/uplot/uPlot.min.css)
list(JOIN PAGE " " PAGE_WORDS)
set(ASSETS ${CMAKE_CURRENT_BINARY_DIR}/page.c)
add_custom_command(OUTPUT ${ASSETS}
  COMMAND ${CMAKE_COMMAND} -DOUT=${ASSETS} -DFILES=${PAGE_WORDS}
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${PAGE} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(cortado_objects PRIVATE ${ASSETS})
