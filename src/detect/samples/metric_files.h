// Metrics in CSV files: one file per metric, named after it (cpu_usage.csv). It has a heading
// "time,machine,machine,…" and one line per sample: seconds, then one value per machine in the metric's unit.
// An empty cell, NaN, nan or null is a missing sample. Anything else that is no number is an error with file,
// line, machine and unit. `machines.csv` in the same folder ("machine,class") says which machines are peers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "detect/samples/samples.h"

namespace longhaul::detect {

Series read_metric_file(const std::filesystem::path& file, size_t metric);
void write_metric_file(const std::filesystem::path& file, const Series& series);  // four significant digits

// Reads the wanted metrics that have a file in the folder, aligned, with their classes.
Pull read_folder(const std::filesystem::path& folder, const std::vector<size_t>& wanted,
                 const AlignOptions& options);

// Machines that are not in the map stay in the class "all".
void set_classes(Pull& pull, const std::map<std::string, std::string>& class_of_machine);
std::map<std::string, std::string> read_classes(const std::filesystem::path& file);

bool has_metrics(const std::filesystem::path& folder);  // true: there is a CSV file of some metric

}  // namespace longhaul::detect
