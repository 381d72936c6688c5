// `longhaul checkpoint`: list, show, verify, compare, prune and merge what a run has saved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "checkpoint/adapters/adapted_run.h"
#include "cli/checkpoint_json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "storage/catalog.h"
#include "storage/diff.h"
#include "storage/retention.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using storage::local_file_system;

struct CheckpointArguments {
  std::string path, second, dtype;
  int64_t keep = 3, keep_every = 0;
  bool dry_run = false, tensors = false, json = false;
};

std::vector<storage::CheckpointSummary> listed(const fs::path& folder) {
  return storage::list_checkpoints(local_file_system(), folder);
}

// The checkpoints of a run, and the folder they are in; Error (66) when there are none, or when `path` is one
// of them.
std::pair<fs::path, std::vector<storage::CheckpointSummary>> all_of(const std::string& path) {
  const auto [folder, is_one] = storage::resolve(local_file_system(), path);
  auto summaries = is_one ? std::vector<storage::CheckpointSummary>() : listed(folder);
  if (!summaries.empty()) return {folder, std::move(summaries)};
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "no checkpoints here",
               .expected = "a run folder or its checkpoints folder",
               .found = is_one ? "one checkpoint" : "only unfinished ones",
               .where = folder.string()});
}

std::string marks_of(const storage::CheckpointSummary& summary) {
  std::vector<std::string> marks;
  if (summary.is_latest) marks.emplace_back("latest");
  if (summary.is_protected) marks.emplace_back("protected");
  // --json has all of it
  if (!summary.usable()) marks.push_back("unusable: " + summary.defect.substr(0, summary.defect.find('\n')));
  return fmt::format("{}", fmt::join(marks, ", "));
}

void add_list_checkpoints(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command list = group.add("list", "the checkpoints of a run, newest first",
                           {{"of a run", "checkpoint list runs/first-run"},
                            {"of a folder of checkpoints", "checkpoint list runs/first-run/checkpoints"},
                            {"for a script", "checkpoint list runs/first-run --json"}});
  list.option("PATH", arguments->path, "a run folder or its checkpoints folder").required();
  list.json_flag(arguments->json);
  list.on_run([arguments] {
    const auto [folder, summaries] = all_of(arguments->path);
    ordered_json json = ordered_json::array();
    observe::Table table(folder.string(), {{"checkpoint"},
                                           {"step", observe::Align::kRight},
                                           {"generation", observe::Align::kRight},
                                           {"size", observe::Align::kRight},
                                           {"tensors", observe::Align::kRight},
                                           {"saved"},
                                           {""}});
    for (const auto& summary : summaries) {
      json.push_back({{"path", summary.path.string()},
                      {"step", summary.name.step},
                      {"generation", summary.generation},
                      {"bytes", summary.bytes},
                      {"tensors", summary.tensors},
                      {"wall_time", summary.wall_time},
                      {"latest", summary.is_latest},
                      {"protected", summary.is_protected},
                      {"usable", summary.usable()},
                      {"defect", summary.defect}});
      table.row({summary.path.filename().string(), count_text(summary.name.step),
                 count_text(summary.generation), bytes_text(summary.bytes), count_text(summary.tensors),
                 summary.wall_time, marks_of(summary)});
    }
    if (arguments->json) {
      print_json({{"folder", folder.string()}, {"checkpoints", json}});
    } else {
      print(table.text(colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

ordered_json json_of(const storage::Manifest& manifest) {
  ordered_json tensors = ordered_json::array();
  for (const auto& [name, tensor] : manifest.tensors) {
    tensors.push_back({{"name", name},
                       {"dtype", std::string(storage::name_of(tensor.dtype))},
                       {"shape", tensor.shape},
                       {"role", tensor.role},
                       {"shards", tensor.shards.size()}});
  }
  return {{"run", manifest.run_id},
          {"generation", manifest.generation},
          {"step", manifest.step},
          {"world", manifest.world},
          {"parent_step", manifest.parent_step},
          {"wall_time", manifest.wall_time},
          {"bytes", manifest.bytes()},
          {"files", manifest.files.size()},
          {"tensors", tensors},
          {"data_position", manifest.data_position},
          {"recipe", manifest.recipe},
          {"environment", manifest.environment},
          {"state", manifest.state}};
}

// A value of the free sections: text as it is, everything else as JSON.
std::string cell(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

observe::Table table_of(const storage::Checkpoint& checkpoint) {
  const storage::Manifest& manifest = checkpoint.manifest();
  observe::Table table(checkpoint.folder().string(), {{""}, {""}});
  table.row({"run", manifest.run_id});
  table.row({"step", count_text(manifest.step)});
  table.row({"generation", count_text(manifest.generation)});
  if (manifest.parent_step >= 0) table.row({"resumed from step", count_text(manifest.parent_step)});
  table.row({"saved",
             fmt::format("{} by {}", manifest.wall_time, counted(manifest.world, "process", "processes"))});
  table.row({"size", fmt::format("{} in {}", bytes_text(manifest.bytes()),
                                 counted(static_cast<int64_t>(manifest.files.size()), "file"))});
  std::map<std::string, std::pair<int64_t, int64_t>> roles;  // tensors and values
  for (const auto& [name, tensor] : manifest.tensors) {
    auto& [tensors, values] = roles[tensor.role];
    ++tensors;
    values += std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  }
  for (const auto& [role, counts] : roles) {
    table.row({"tensors, " + role,
               fmt::format("{} of {}", count_text(counts.first), counted(counts.second, "value"))});
  }
  for (const auto* section : {&manifest.state, &manifest.environment}) {
    for (const auto& [name, value] : section->items()) table.row({name, cell(value)});
  }
  return table;
}

void add_show_checkpoint(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command show =
      group.add("show", "what one checkpoint holds: where it came from, its tensors",
                {{"the newest of a run", "checkpoint show runs/first-run"},
                 {"with every tensor", "checkpoint show runs/first-run/checkpoints/step-000000200 --tensors"},
                 {"with recipe and environment, for a script", "checkpoint show runs/first-run --json"}});
  show.option("PATH", arguments->path, "a checkpoint, `latest`, or a run folder: its newest").required();
  show.flag("--tensors", arguments->tensors, "list every tensor");
  show.json_flag(arguments->json);
  show.on_run([arguments] {
    const auto checkpoint = storage::open_checkpoint(local_file_system(), arguments->path);
    const storage::Manifest& manifest = checkpoint.manifest();
    if (arguments->json) {
      ordered_json json = json_of(manifest);
      json["path"] = checkpoint.folder().string();
      print_json(json);
      return ExitCode::kDone;
    }
    print(table_of(checkpoint).text(colours_wanted(stdout)));
    if (!arguments->tensors) return ExitCode::kDone;
    observe::Table table("tensors", {{"name"}, {"dtype"}, {"shape"}, {"role"}});
    for (const auto& [name, tensor] : manifest.tensors) {
      table.row({name, std::string(storage::name_of(tensor.dtype)),
                 fmt::format("[{}]", fmt::join(tensor.shape, ", ")), tensor.role});
    }
    print(table.text(colours_wanted(stdout)));
    return ExitCode::kDone;
  });
}

// Every byte of one checkpoint; the first defect is an Error (66) that names file and tensor.
void verify_one(const fs::path& path) {
  const auto checkpoint = storage::Checkpoint::open(local_file_system(), path);
  Progress progress("verifying " + path.filename().string(), checkpoint.manifest().bytes(),
                    Progress::Unit::kBytes);
  checkpoint.verify([&](int64_t bytes) { progress.advance(bytes); });
}

void add_verify_checkpoint(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command verify =
      group.add("verify", "read every byte and compare checksums (exit 66 names file and tensor)",
                {{"one checkpoint", "checkpoint verify runs/first-run/checkpoints/step-000000200"},
                 {"all of a run", "checkpoint verify runs/first-run"},
                 {"for a script", "checkpoint verify runs/first-run --json"}});
  verify.option("PATH", arguments->path, "a checkpoint, `latest`, or a run folder: all of its checkpoints")
      .required();
  verify.json_flag(arguments->json);
  verify.on_run([arguments] {
    const auto [folder, is_one] = storage::resolve(local_file_system(), arguments->path);
    std::vector<fs::path> paths;
    if (is_one) {
      paths.push_back(folder);
    } else {
      for (const auto& summary : all_of(arguments->path).second) paths.push_back(summary.path);
    }
    std::optional<Error> first_defect;
    for (const fs::path& path : paths) {
      std::string defect;
      try {
        verify_one(path);
      } catch (const Error& error) {
        if (!first_defect) first_defect = error;
        defect = error.what();
      }
      if (arguments->json) {
        print_json({{"path", path.string()}, {"ok", defect.empty()}, {"defect", defect}});
      } else {
        print(fmt::format("{}  {}\n", defect.empty() ? "in order" : "damaged ", path.string()));
      }
    }
    if (first_defect) throw *first_defect;
    return ExitCode::kDone;
  });
}

void add_diff_checkpoints(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command diff =
      group.add("diff", "the tensors in which two checkpoints differ (exit 1 when they do)",
                {{"two checkpoints",
                  "checkpoint diff runs/a/checkpoints/step-000000200 runs/b/checkpoints/step-000000200"},
                 {"the newest of two runs", "checkpoint diff runs/a runs/b"},
                 {"for a script", "checkpoint diff runs/a runs/b --json"}});
  diff.option("FIRST", arguments->path, "a checkpoint, `latest`, or a run folder: its newest").required();
  diff.option("SECOND", arguments->second, "another").required();
  diff.json_flag(arguments->json);
  diff.on_run([arguments] {
    const auto first = storage::open_checkpoint(local_file_system(), arguments->path);
    const auto second = storage::open_checkpoint(local_file_system(), arguments->second);
    const storage::CheckpointDifference difference = storage::diff(first, second);
    if (arguments->json) {
      print_json(cli::json_of(difference));
    } else {
      observe::Table table(
          "tensors that differ",
          {{"name"}, {"how"}, {"elements", observe::Align::kRight}, {"largest", observe::Align::kRight}});
      for (const auto& tensor : difference.tensors) {
        const bool values = tensor.kind == storage::TensorDifference::Kind::kValues;
        table.row(
            {tensor.name,
             values ? "values" : fmt::format("{} {} {}", name_of(tensor.kind), tensor.left, tensor.right),
             values ? fmt::format("{} of {}", count_text(tensor.different), count_text(tensor.elements)) : "",
             values ? fmt::format("{:.3g}", tensor.maximum) : ""});
      }
      if (!difference.same()) print(table.text(colours_wanted(stdout)));
      print(fmt::format("{} equal in every bit, {} differ\n", counted(difference.equal, "tensor"),
                        difference.tensors.size()));
    }
    return difference.same() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_prune_checkpoints(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command prune = group.add(
      "prune", "remove old checkpoints, once a newer one has been verified",
      {{"what would go, keeping three", "checkpoint prune runs/first-run --keep 3 --dry-run"},
       {"keep two, and every thousandth step", "checkpoint prune runs/first-run --keep 2 --keep-every 1000"},
       {"for a script", "checkpoint prune runs/first-run --json"}});
  prune.option("PATH", arguments->path, "a run folder or its checkpoints folder").required();
  prune.option("--keep", arguments->keep, "newest checkpoints kept")
      .default_shown()
      .at_least(1)
      .at_most(1e12);
  prune
      .option("--keep-every", arguments->keep_every,
              "besides, keep steps that are a multiple of this; 0: none")
      .default_shown()
      .at_least(0);
  prune.flag("--dry-run", arguments->dry_run, "only say what would be removed");
  prune.json_flag(arguments->json);
  prune.on_run([arguments] {
    const auto [folder, summaries] = all_of(arguments->path);
    int64_t generation = 0;
    for (const auto& summary : summaries) generation = std::max(generation, summary.generation);
    storage::ReadBack read_back;
    const auto report = storage::prune(
        local_file_system(), folder, {.keep_last = arguments->keep, .keep_every = arguments->keep_every},
        generation, wall_time_s(), read_back,
        arguments->dry_run ? storage::Prune::kOnlyReport : storage::Prune::kRemove);
    ordered_json removed = ordered_json::array(), kept = ordered_json::array();
    for (const auto& path : report.removed) removed.push_back(path.string());
    for (const auto& each : report.kept)
      kept.push_back({{"path", each.path.string()}, {"reason", each.reason}});
    if (arguments->json) {
      print_json({{"removed", removed}, {"kept", kept}, {"dry_run", arguments->dry_run}});
      return ExitCode::kDone;
    }
    for (const auto& path : report.removed)
      print(fmt::format("{}  {}\n", arguments->dry_run ? "would remove" : "removed", path.string()));
    for (const auto& each : report.kept)
      print(fmt::format("kept  {}  ({})\n", each.path.string(), each.reason));
    return ExitCode::kDone;
  });
}

void add_merge_checkpoint(Command& group) {
  auto arguments = std::make_shared<CheckpointArguments>();
  Command merge = group.add(
      "merge", "add a run's adapters into the weights: a checkpoint that everything else reads",
      {{"the newest of a run", "checkpoint merge runs/lora runs/merged"},
       {"keeping what bf16 would round away", "checkpoint merge runs/lora runs/merged --dtype fp32"},
       {"for a script", "checkpoint merge runs/lora runs/merged --json"}});
  merge.option("RUN", arguments->path, "a run with adapters ([lora]), or one of its checkpoints").required();
  merge
      .option("DIR", arguments->second,
              "folder to make: what sample, serve, evaluate, export and train --from take")
      .required();
  merge.option("--dtype", arguments->dtype, "of the weights that had an adapter (default: as they were)")
      .one_of({"bf16", "fp32"});
  merge.json_flag(arguments->json);
  merge.on_run([arguments] {
    std::optional<ScalarType> dtype;
    if (!arguments->dtype.empty()) dtype = scalar_type_named(arguments->dtype);
    checkpoint::MergeReport report;
    {
      std::optional<Progress> bar;
      report = checkpoint::merge_adapters(arguments->path, arguments->second, dtype,
                                          [&](int64_t done, int64_t total) {
                                            if (!bar) bar.emplace("merging", total, Progress::Unit::kBytes);
                                            bar->advance(done);
                                          });
    }
    if (arguments->json) {
      print_json({{"out", arguments->second},
                  {"step", report.step},
                  {"adapters", report.adapters},
                  {"tensors", report.tensors},
                  {"bytes", report.bytes}});
      return ExitCode::kDone;
    }
    print(fmt::format("step {}: {} added into the weights, {} written to {}\n", report.step,
                      counted(report.adapters, "adapter"), bytes_text(report.bytes), arguments->second));
    return ExitCode::kDone;
  });
}

}  // namespace

ordered_json json_of(const storage::CheckpointDifference& difference) {
  ordered_json tensors = ordered_json::array();
  for (const auto& tensor : difference.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"kind", std::string(name_of(tensor.kind))},
                       {"left", tensor.left},
                       {"right", tensor.right},
                       {"elements", tensor.elements},
                       {"different", tensor.different},
                       {"first_different", tensor.first_different},
                       {"maximum", tensor.maximum}});
  }
  return {{"same", difference.same()}, {"equal_tensors", difference.equal}, {"tensors", tensors}};
}

void add_checkpoint(Command& program) {
  Command group = program.add_group("checkpoint", "list, show, verify, compare, prune and merge checkpoints",
                                    {{"what a run has saved", "checkpoint list runs/first-run"},
                                     {"is every byte in order?", "checkpoint verify runs/first-run"},
                                     {"where two runs differ", "checkpoint diff runs/a runs/b"}});
  add_list_checkpoints(group);
  add_show_checkpoint(group);
  add_verify_checkpoint(group);
  add_diff_checkpoints(group);
  add_prune_checkpoints(group);
  add_merge_checkpoint(group);
}

}  // namespace longhaul::cli
