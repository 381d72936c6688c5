// `longhaul prove RECIPE`: the recipe's model, made small, gives the same on several ranks as in one process.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "recipe/load.h"
#include "train/prove.h"

namespace longhaul::cli {
namespace {

struct ProveArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool json = false;
};

nlohmann::ordered_json json_of(const train::Proof& proof) {
  nlohmann::ordered_json json = {{"layout", proof.layout}, {"status", name_of(proof.status)}, {"reason", proof.reason}};
  if (proof.status != train::Proof::Status::kTried) return json;
  json["holds"] = proof.holds;
  json["worst"] = proof.worst;
  json["worst_bf16"] = proof.worst_bf16;
  json["tensor"] = proof.tensor;
  return json;
}

std::string text_of(const std::vector<train::Proof>& proofs) {
  observe::Table table("one process and several ranks", {{"layout"}, {"status"}, {"worst, fp64"}, {"worst gradient, bf16"}, {"where"}});
  for (const train::Proof& proof : proofs) {
    const bool tried = proof.status == train::Proof::Status::kTried;
    table.row({proof.layout,
               !tried        ? std::string(name_of(proof.status))
               : proof.holds ? "equal"
                             : "DIFFERS",
               tried ? fmt::format("{:.1e}", proof.worst) : "", tried ? fmt::format("{:.1e}", proof.worst_bf16) : "",
               tried ? proof.tensor : proof.reason});
  }
  return table.text(colours_wanted(stdout));
}

ExitCode run(const ProveArguments& arguments) {
  const recipe::LoadedRecipe loaded = recipe::load(arguments.recipe, arguments.overrides);
  std::vector<train::Proof> proofs;
  {
    Progress progress("proving", static_cast<int64_t>(train::proof_layouts(loaded.recipe.parallel).size()));
    bool begun = false;
    proofs = train::prove(loaded.recipe.model, loaded.recipe.parallel, loaded.recipe.optim, [&](const train::ProofLayout&) {
      if (begun) progress.advance(1);
      begun = true;
    });
  }
  if (arguments.json) {
    for (const train::Proof& proof : proofs) print(json_of(proof).dump() + "\n");
  } else {
    print(text_of(proofs));
  }
  return std::ranges::all_of(proofs, &train::Proof::holds) ? ExitCode::kDone : ExitCode::kCheckFailed;
}

}  // namespace

void add_prove(Command& program) {
  auto arguments = std::make_shared<ProveArguments>();
  Command prove = program.add("prove", "the recipe's model, made small, is the same on several ranks as in one process (exit 1 when not)",
                              {{"every layout", "prove recipes/first-run.toml"},
                               {"and the layout of [parallel]", "prove recipes/first-run.toml parallel.tp=2 parallel.cp=2"},
                               {"for a script, one object a layout", "prove recipes/first-run.toml --json"}});
  prove.recipe(arguments->recipe, arguments->overrides);
  prove.json_flag(arguments->json);
  prove.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
