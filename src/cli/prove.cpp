// `longhaul prove RECIPE`: the recipe's model, made small, gives the same on several ranks as in one process.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "prove/prove.h"
#include "prove/prove_covering.h"
#include "prove/prove_task.h"
#include "recipe/load.h"

namespace longhaul::cli {
namespace {

struct ProveArguments {
  std::string recipe, layouts = "usual", mistake, as_rank;
  std::vector<std::string> overrides;
  int64_t ranks = 8;
  bool json = false;
};

nlohmann::ordered_json json_of(const prove::Proof& proof, recipe::Dtype working) {
  nlohmann::ordered_json json = {{"layout", proof.layout},
                                 {"ranks", proof.ranks},
                                 {"status", proof.status_name()},
                                 {"reason", proof.reason}};
  if (proof.status != prove::Proof::Status::kTried) return json;
  json["holds"] = proof.holds;
  json["worst"] = proof.worst;
  if (working != recipe::Dtype::kFp64)
    json[fmt::format("worst_{}", recipe::name_of_value(working))] = proof.worst_working;
  if (working == recipe::Dtype::kFp32) json["one_process_fp32"] = proof.of_one_process;
  json["tensor"] = proof.tensor;
  json["resumed_from"] = proof.resumed_from;
  json["seconds"] = proof.seconds;
  return json;
}

std::string result_of(const prove::Proof& proof) {
  if (proof.status != prove::Proof::Status::kTried) return std::string(proof.status_name());
  return proof.holds ? "equal" : "DIFFERS";
}

std::string text_of(const std::vector<prove::Proof>& proofs, recipe::Dtype working) {
  const std::string beside = working == recipe::Dtype::kBf16   ? "worst gradient, bf16"
                             : working == recipe::Dtype::kFp32 ? "worst, fp32"
                                                               : "";
  std::vector<observe::Column> columns{{"layout"}, {"ranks"}, {"status"}, {"worst, fp64"}};
  if (!beside.empty()) columns.push_back({beside});
  const bool fp32 = working == recipe::Dtype::kFp32;
  if (fp32) columns.push_back({"one process, fp32"});
  columns.push_back({"where"});
  observe::Table table("one process and several ranks", columns);
  std::map<std::string, int64_t> counts;
  for (const prove::Proof& proof : proofs) {
    const bool tried = proof.status == prove::Proof::Status::kTried;
    ++counts[result_of(proof)];
    std::vector<std::string> row{proof.layout, std::to_string(proof.ranks), result_of(proof),
                                 tried ? fmt::format("{:.1e}", proof.worst) : ""};
    if (!beside.empty()) row.push_back(tried ? fmt::format("{:.1e}", proof.worst_working) : "");
    if (fp32) row.push_back(tried ? fmt::format("{:.1e}", proof.of_one_process) : "");
    row.push_back(tried ? proof.tensor : proof.reason);
    table.row(row);
  }
  std::string sums;
  for (const auto& [result, count] : counts)
    sums += fmt::format("{}{} {}", sums.empty() ? "" : ", ", count, result);
  return table.text(colours_wanted(stdout)) + fmt::format("\n{} layouts: {}\n", proofs.size(), sums);
}

// Of `--layouts`: the usual ones, all, or some by name.
std::vector<prove::ProofLayout> layouts_of(const ProveArguments& arguments, const recipe::Recipe& recipe) {
  std::vector<prove::ProofLayout> known = prove::proof_layouts(prove::own_layout(recipe));
  if (arguments.layouts == "usual") return known;
  if (arguments.layouts == "all") return prove::all_layouts(recipe.model, arguments.ranks);
  const std::vector<prove::ProofLayout> processes = prove::process_layouts(recipe.model, arguments.ranks);
  if (arguments.layouts == "processes") return processes;
  known.insert(known.end(), processes.begin(), processes.end());
  bool all_are_known = false;  // it takes a second to make the list
  std::vector<prove::ProofLayout> chosen;
  for (const std::string_view each : split(arguments.layouts, ',')) {
    const std::string name(each);
    auto found = std::ranges::find(known, name, &prove::ProofLayout::name);
    if (found == known.end() && !std::exchange(all_are_known, true)) {
      std::ranges::copy(prove::all_layouts(recipe.model, arguments.ranks), std::back_inserter(known));
      found = std::ranges::find(known, name, &prove::ProofLayout::name);
    }
    if (found == known.end()) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "there is no such layout",
                   .expected = "usual, all, processes, or names as the table has them, with commas between",
                   .found = name,
                   .where = "--layouts",
                   .hint = fmt::format("longhaul prove {} --layouts all --ranks 2", arguments.recipe)});
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// Who asks for a layout, by its name or by the recipe's [parallel], wants it tried; of a list of many some
// are refused for any model.
bool asked_for(const ProveArguments& arguments, const recipe::Recipe& recipe, const std::string& layout) {
  if (arguments.layouts == "all" || arguments.layouts == "processes") return false;
  const prove::ProofLayout own = prove::own_layout(recipe);
  return arguments.layouts != "usual" || (own.parallel.world() > 1 && layout == own.name);
}

void require_tried(const ProveArguments& arguments, const recipe::Recipe& recipe,
                   const std::vector<prove::Proof>& proofs) {
  bool none = true;
  for (const prove::Proof& proof : proofs) {
    const bool tried = proof.status == prove::Proof::Status::kTried;
    none = none && !tried;
    if (tried || !asked_for(arguments, recipe, proof.layout)) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "a layout that was asked for could not be tried",
                 .expected = fmt::format("{} on the recipe's model", proof.layout),
                 .found = fmt::format("{}: {}", proof.status_name(), proof.reason),
                 .where = "--layouts and [parallel]",
                 .hint = fmt::format("longhaul prove {} --layouts all", arguments.recipe)});
  }
  if (!none) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "no layout could be tried, so nothing is proved",
               .expected = "a layout that the recipe's model can be dealt out to",
               .found = fmt::format("{} layouts, none of them tried", proofs.size()),
               .where = "--layouts and --ranks",
               .hint = fmt::format("longhaul prove {}", arguments.recipe)});
}

// The words that come to this program's own as_rank below.
prove::ProofProcess process_of(const ProveArguments& arguments) {
  return [&arguments](const prove::ProofLayout& layout, const std::filesystem::path& folder) {
    std::vector<std::string> words = {"prove", arguments.recipe};
    words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
    words.insert(words.end(), {"--ranks", std::to_string(arguments.ranks), "--layouts", layout.name,
                               "--as-rank", folder.string()});
    return words;
  };
}

std::vector<prove::Proof> prove_with_progress(prove::ProofRequest request) {
  Progress progress("proving", static_cast<int64_t>(request.layouts.size()));
  bool begun = false;
  request.begins = [&](const prove::ProofLayout&) {
    if (begun) progress.advance(1);
    begun = true;
  };
  return prove::prove(request);
}

ExitCode list_mistakes(bool json) {
  for (const prove::ProofMistake& mistake : prove::proof_mistakes()) {
    if (json) print(nlohmann::ordered_json{{"name", mistake.name}, {"what", mistake.what}}.dump() + "\n");
    if (!json) print(mistake.name + "\n");
  }
  return ExitCode::kDone;
}

// Exit 1, as any proof that fails, when the mistake was found.
ExitCode run_with_mistake(const ProveArguments& arguments, const recipe::Recipe& recipe) {
  const prove::ProofMistake& mistake = prove::proof_mistake(arguments.mistake);
  const std::string missing = mistake.missing ? mistake.missing(recipe.model) : "";
  if (!missing.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the model cannot have this mistake",
                 .expected = missing,
                 .found = fmt::format("a recipe without: {}", arguments.recipe),
                 .where = "--break " + mistake.name,
                 .hint = "longhaul prove --break list"});
  }
  const std::vector<prove::Proof> proofs =
      prove::prove({.model = recipe.model,
                    .optim = recipe.optim,
                    .layouts = {prove::proof_layout(mistake.layout), prove::planted(mistake)},
                    .dtype = recipe.train.dtype});
  const prove::Proof &sound = proofs[0], &proof = proofs[1];
  const bool found = !proof.holds && sound.holds && sound.status == prove::Proof::Status::kTried;
  if (arguments.json) {
    nlohmann::ordered_json json = {{"name", mistake.name}, {"what", mistake.what}, {"found", found}};
    json.update(json_of(proof, recipe.train.dtype));
    print(json.dump() + "\n");
  } else {
    print(fmt::format("{}\n  planted on {}: {}\n  without it  {}: {}\n", mistake.what, proof.layout,
                      found ? "found, " + proof.reason : "NOT FOUND", sound.layout, result_of(sound)));
  }
  return found ? ExitCode::kCheckFailed : ExitCode::kDone;
}

ExitCode run(const ProveArguments& arguments) {
  if (arguments.mistake == "list") return list_mistakes(arguments.json);
  if (arguments.recipe.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "which recipe shall be proved?",
                 .expected = "a recipe file (TOML)",
                 .found = "none",
                 .where = "RECIPE",
                 .hint = "longhaul prove recipes/first-run.toml"});
  }
  const recipe::Recipe recipe = recipe::load(arguments.recipe, arguments.overrides).recipe;
  if (!arguments.mistake.empty()) return run_with_mistake(arguments, recipe);
  const std::vector<prove::ProofLayout> layouts = layouts_of(arguments, recipe);
  if (!arguments.as_rank.empty()) {
    prove::prove_as_process(prove::subject_of(recipe.model, recipe.optim, layouts.at(0)), arguments.as_rank);
    return ExitCode::kDone;
  }
  // before minutes go into the others: `train` would refuse it with the same words
  for (const prove::ProofLayout& layout : layouts) {
    if (asked_for(arguments, recipe, layout.name)) prove::require_dealt_out(recipe.model, layout);
  }
  const std::vector<prove::Proof> proofs = prove_with_progress({.model = recipe.model,
                                                                .optim = recipe.optim,
                                                                .layouts = layouts,
                                                                .dtype = recipe.train.dtype,
                                                                .process = process_of(arguments)});
  if (arguments.json) {
    for (const prove::Proof& proof : proofs) print(json_of(proof, recipe.train.dtype).dump() + "\n");
  } else {
    print(text_of(proofs, recipe.train.dtype));
    if (recipe.optim.outer.method != recipe::Outer::kNone) {
      print(fmt::format(
          "\noptim.outer = {} itself is not proved: what workers make of other documents has no equal in one "
          "process. Layouts with "
          "workers are of workers that see the same, and {} behind each step.\n",
          recipe::name_of_value(recipe.optim.outer.method),
          recipe.optim.outer.method == recipe::Outer::kDelayCorrected ? "correct their weights, a step late,"
                                                                      : "take the mean of their weights"));
    }
    if (arguments.layouts == "all") {
      for (const std::string& pair : prove::pairs_left_out(layouts))
        print("  in none of them, because none can: " + pair + "\n");
    }
  }
  if (!std::ranges::all_of(proofs, &prove::Proof::holds)) return ExitCode::kCheckFailed;
  require_tried(arguments, recipe, proofs);
  return ExitCode::kDone;
}

}  // namespace

void add_prove(Command& program) {
  auto arguments = std::make_shared<ProveArguments>();
  Command prove = program.add(
      "prove",
      "the recipe's model, made small, is the same on several ranks as in one process (exit 1 when not, 64 "
      "when that could not be tried)",
      {{"the usual layouts, and that of [parallel]",
        "prove recipes/first-run.toml parallel.tp=2 parallel.cp=2"},
       {"every mesh of up to 8 ranks", "prove recipes/first-run.toml --layouts all --ranks 8"},
       {"a known bug, planted: is it found?", "prove recipes/first-run.toml --break document-reset-lost"}});
  prove.option("RECIPE", arguments->recipe, "a recipe file (TOML)");
  prove.overrides(arguments->overrides);
  prove.option("--layouts", arguments->layouts,
               "usual, all, processes (some whose ranks are processes), or names with commas between");
  prove.option("--ranks", arguments->ranks, "of `all`: meshes of 1, 2, 4 … up to so many")
      .at_least(1)
      .at_most(64);
  prove.option("--break", arguments->mistake,
               "plant this mistake; exit 1 when it is found, 0 when not. list: their names");
  prove.option("--as-rank", arguments->as_rank, "").hidden();
  prove.json_flag(arguments->json);
  prove.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
