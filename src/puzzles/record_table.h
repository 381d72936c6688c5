// Rows of puzzles in Parquet files, as public trainers read them: texts, whole numbers, lists and structures.
// Read and written by Arrow's own library where the program was built with it (scripts/fetch-arrow,
// LONGHAUL_ARROW); else such files are refused with the way to get it. Memory: a thousand rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files/file.h"

namespace longhaul::puzzles {

bool can_use_tables();  // built with Arrow

// Every row as an object of its columns, from 1; columns of kinds that rows of puzzles never have are left
// out. kData: no Parquet file, or columns missing.
void each_table_row(const std::filesystem::path& path,
                    const std::function<void(int64_t row, const nlohmann::json& columns)>& give);

// Writes into a file that is open; its owner gives it its name when finish() has returned.
class TableWriter {
 public:
  explicit TableWriter(File& file);
  ~TableWriter();
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;
  void write(const nlohmann::ordered_json& columns);  // those of read_row(); a missing one is null
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul::puzzles
