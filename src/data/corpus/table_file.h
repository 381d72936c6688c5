// Tables of Apache Arrow and Parquet, of which a column of strings holds the documents: .parquet files, and the .arrow files of a folder that Hugging
// Face `datasets` saved (save_to_disk). Read by Arrow's own library, batch by batch, where the program was built with it (scripts/fetch-arrow,
// LONGHAUL_ARROW); else such files are known and not read. Every refusal is kData and names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace longhaul::data {

bool is_table(std::string_view file_name);  // by its ending
bool can_read_tables();                     // built with Arrow

// Gives out the strings of a column, row by row; rows count from 1 and those up to `after` are passed over. A row without a string: null.
void read_table(const std::filesystem::path& path, const std::string& column, int64_t after,
                const std::function<void(int64_t row, const std::string_view* text)>& give);

}  // namespace longhaul::data
