# Writes OUTPUT, a C++ source that holds the text of every file of PRESETS (a ;-list of .toml paths).
#   cmake -DOUTPUT=… -DPRESETS=… -P embed_presets.cmake
set(source "// Made by src/recipe/embed_presets.cmake from presets/*.toml.\n#include \"recipe/architecture/presets.h\"\n\n")
string(APPEND source "namespace longhaul::recipe {\n\nconst std::vector<Preset>& presets() {\n  static const std::vector<Preset> all = {\n")
foreach(preset ${PRESETS})
  get_filename_component(name ${preset} NAME_WLE)
  file(READ ${preset} text)
  string(APPEND source "    {\"${name}\", R\"longhaul_toml(${text})longhaul_toml\"},\n")
endforeach()
string(APPEND source "  };\n  return all;\n}\n\n}  // namespace longhaul::recipe\n")
file(WRITE ${OUTPUT} "${source}")
