# The parts of the report's page as C++ texts: cmake -DFOLDER=src/report/assets -DMADE=assets.cpp -P embed.cmake

set(code "#include \"report/assets.h\"\n\n#include <array>\n\nnamespace spillway {\n\n")

# Literals of 8,000 bytes: compilers need not take long ones.
function(embed name file)
  file(READ ${FOLDER}/${file} text)
  string(LENGTH "${text}" left)
  set(literals)
  set(at 0)
  while(at LESS left)
    string(SUBSTRING "${text}" ${at} 8000 part)
    string(APPEND literals "R\"embedded(${part})embedded\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  set(code "${code}${name}{${literals}};\n" PARENT_SCOPE)
endfunction()

embed("const std::string_view kPageHead" head.html)
embed("const std::string_view kPageStyle" page.css)
embed("const std::string_view kPageBody" body.html)

# In alphabetical order, so files that others build on carry early letters; main.js comes last.
file(GLOB scripts RELATIVE ${FOLDER} ${FOLDER}/*.js)
list(REMOVE_ITEM scripts main.js)
list(SORT scripts)
list(APPEND scripts main.js)
list(LENGTH scripts count)
string(APPEND code "static const std::array<std::string_view, ${count}> kScripts{\n")
foreach(script IN LISTS scripts)
  embed("std::string_view" ${script})
  string(REGEX REPLACE ";\n$" ",\n" code "${code}")
endforeach()
string(APPEND code "};\nconst std::span<const std::string_view> kPageScripts(kScripts);\n\n}  // namespace spillway\n")
file(WRITE ${MADE} "${code}")
