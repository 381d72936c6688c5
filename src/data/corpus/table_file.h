// Tables of Apache Arrow and Parquet with a string column that holds the documents: .parquet files, and the
// .arrow files of a folder that Hugging Face `datasets` saved (save_to_disk). Arrow's own library reads them,
// batch by batch, if the program was built with it (scripts/fetch-arrow, LONGHAUL_ARROW); otherwise such
// files are recognised but not read. Every refusal is kData and names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace longhaul::data {

bool is_table(std::string_view file_name);  // decided by its ending
bool can_read_tables();                     // built with Arrow

// Passes the strings of a column, row by row; rows count from 1, and those up to `after` are skipped. A row
// without a string is null.
void read_table(const std::filesystem::path& path, const std::string& column, int64_t after,
                const std::function<void(int64_t row, const std::string_view* text)>& give);

// Passes whole rows as objects: lists and structures of any depth, texts, numbers and booleans as JSON has
// them, values of other types as their text. Fields without a value are left out.
void read_table_rows(const std::filesystem::path& path,
                     const std::function<void(int64_t row, nlohmann::ordered_json&& fields)>& give);

}  // namespace longhaul::data
