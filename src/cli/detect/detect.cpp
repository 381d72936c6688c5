// `longhaul detect simulate` and `detect train`; run, score and trial are in detect_run.cpp, detect_score.cpp
// and detect_trial.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "detect/samples/run_samples.h"
#include "detect/trials/case_files.h"
#include "detect/trials/priority.h"
#include "detect/trials/trial.h"
#include "observe/table.h"

namespace longhaul::cli {

void add_detect_run(Command& detect_group);
void add_detect_score(Command& detect_group);
void add_detect_trial(Command& detect_group);

namespace {

using nlohmann::ordered_json;
using observe::Align;

struct SimulateArguments {
  detect::CaseSpec spec;
  std::string out, metrics = "used";
  std::vector<std::string> structure;
  int64_t cases = 1;
  bool json = false;
};

detect::Structure structure_of(const std::vector<std::string>& words) {
  detect::Structure structure;
  for (const std::string& word : words) {
    if (word == "stages") structure.stage_levels = true;
    if (word == "experts") structure.expert_drift = true;
    if (word == "evaluations") structure.evaluations = true;
    if (word == "stragglers") structure.stragglers = true;
    if (word == "noisy") structure.noisy_machine = true;
    if (word == "late") structure.late_machine = true;
    if (word == "stops") structure.data_stops = true;
  }
  return structure;
}

std::string what_happened(const detect::Case& made) {
  if (made.faults.empty()) return "no fault";
  std::string text;
  for (const detect::Fault& fault : made.faults) {
    text += fmt::format("{}{} on {}, seconds {} to {}{}", text.empty() ? "" : "; ", fault.type,
                        made.pull.machines[static_cast<size_t>(fault.machine)], fault.onset_s, fault.end_s,
                        detect::detectable(fault, detect::metric_choice("used"), detect::kContinuitySpan)
                            ? ""
                            : " (below the ceiling)");
  }
  return text;
}

ExitCode run_simulate(const SimulateArguments& arguments) {
  detect::CaseSpec spec = arguments.spec;
  spec.metrics = detect::metric_choice(arguments.metrics);
  spec.structure = structure_of(arguments.structure);
  observe::Table table("", {{"folder"}, {"what happened"}});
  ordered_json list = ordered_json::array();
  int64_t faults = 0, findable = 0;
  Progress progress("cases", arguments.cases);
  for (int64_t i = 0; i < arguments.cases; ++i) {
    const bool one = arguments.cases == 1;
    const std::filesystem::path folder =
        one ? std::filesystem::path(arguments.out)
            : std::filesystem::path(arguments.out) / fmt::format("case-{:04}", i);
    // Half of several cases are normal; a single one is so with an even chance, unless a fault was asked for.
    detect::CaseSpec each = spec;
    each.seed = spec.seed + static_cast<uint64_t>(i);
    if (spec.fault == "random")
      each.fault = RandomStream(each.seed, "detect/normal").uniform(0) < .5 ? "none" : "any";
    const detect::Case made = detect::simulate(each);
    detect::write_case(folder, made);
    for (const detect::Fault& fault : made.faults)
      ++faults, findable += detect::detectable(fault, detect::metric_choice("used"), detect::kContinuitySpan);
    if (i < 20) table.row({folder.string(), what_happened(made)});
    list.push_back({{"folder", folder.string()}, {"seed", each.seed}, {"faults", made.faults.size()}});
    progress.advance(1);
  }
  const double ceiling = faults == 0 ? 1 : static_cast<double>(findable) / static_cast<double>(faults);
  if (arguments.json) {
    print_json({{"cases", list}, {"faults", faults}, {"detectable", findable}, {"ceiling", ceiling}});
    return ExitCode::kDone;
  }
  print(table.text(colours_wanted(stdout)));
  if (arguments.cases > 20) print(fmt::format("  … and {} more\n", arguments.cases - 20));
  print(
      fmt::format("\nCeiling of recall: {:.3f}. Of {}, {} last {} seconds and show in one of the seven "
                  "metrics; who waits four minutes finds others by chance alone.\n",
                  ceiling, counted(faults, "fault"), findable, detect::kContinuitySpan));
  return ExitCode::kDone;
}

void add_simulate(Command& group) {
  auto arguments = std::make_shared<SimulateArguments>();
  arguments->spec.fault = "random";
  Command simulate = group.add(
      "simulate",
      "metrics of a cluster with or without a faulty machine, as CSV files, and the truth beside them",
      {{"sixteen machines; the seed decides whether one is faulty",
        "detect simulate --machines 16 --seed 1 --out cases/one"},
       {"sixty cases to train on", "detect simulate --machines 16 --seed 1000 --cases 60 --out cases/train"},
       {"a NIC that drops out among 64 machines, bad sensors",
        "detect simulate --machines 64 --seed 7 --fault nic_dropout --glitches --out cases/nic"}});
  simulate.option("--machines", arguments->spec.machines, "how many")
      .at_least(1)
      .at_most(20'000)
      .default_shown();
  simulate.option("--seed", arguments->spec.seed, "which case: the same seed gives the same numbers")
      .default_shown();
  simulate.option("--out", arguments->out, "folder to write into").required();
  simulate.option("--cases", arguments->cases, "how many, in folders case-0000 and on, of seeds that follow")
      .at_least(1)
      .at_most(10'000)
      .default_shown();
  simulate
      .option("--fault", arguments->spec.fault,
              "random (fault or none, evenly), any, none, or a type such as ecc_error")
      .default_shown();
  simulate.option("--seconds", arguments->spec.seconds, "length (s); a fault ends with it").default_shown();
  simulate
      .option("--episodes", arguments->spec.episodes, "faults one after the other, each in as many seconds")
      .default_shown();
  simulate.option("--metrics", arguments->metrics, "used (seven), more, all (21), or names with commas")
      .default_shown();
  simulate
      .option("--structure", arguments->structure,
              "what else goes on, repeated: stages, experts, evaluations, stragglers, noisy, late, stops")
      .one_of({"stages", "experts", "evaluations", "stragglers", "noisy", "late", "stops"});
  simulate.flag("--glitches", arguments->spec.glitches, "two samples in a hundred are wrong (regime B)");
  simulate.flag("--shifted", arguments->spec.shifted, "periods, noise and severities beyond the usual");
  simulate.flag("--evaluation-mix", arguments->spec.evaluation_mix,
                "fault types as in the paper's test set, not as in production");
  simulate.json_flag(arguments->json);
  simulate.on_run([arguments] { return run_simulate(*arguments); });
}

struct DetectTrainArguments {
  detect::TrainOptions options;
  std::vector<std::string> folders, validate, limits, variants;
  std::string out, metrics = "used";
  bool json = false;
};

std::vector<detect::LabelledCase> read_cases(const std::vector<std::filesystem::path>& folders,
                                             const detect::TrainOptions& options, const char* label) {
  std::vector<detect::LabelledCase> cases;
  Progress progress(label, static_cast<int64_t>(folders.size()));
  for (const auto& folder : folders) {
    detect::LabelledCase each{
        .pull = detect::read_samples(folder, options.metrics, {.limits = options.limits}).pull};
    // machines are sorted in both
    if (const auto truth = detect::read_truth(folder)) each.faults = truth->faults;
    cases.push_back(std::move(each));
    progress.advance(1);
  }
  return cases;
}

bool all_have_truth(const std::vector<std::filesystem::path>& folders) {
  return std::all_of(folders.begin(), folders.end(),
                     [](const auto& folder) { return detect::read_truth(folder).has_value(); });
}

ordered_json trained_json(const detect::Models& models, const std::string& out, double seconds) {
  ordered_json list = ordered_json::array();
  for (const detect::TrainedVae& vae : models.vaes) {
    list.push_back({{"metric", detect::metrics()[vae.metrics.front()].name},
                    {"parameters", vae.shape.parameters()},
                    {"error", vae.error},
                    {"kl", vae.kl},
                    {"retained", vae.retained}});
  }
  ordered_json order = ordered_json::array();
  for (const size_t metric : models.priority) order.push_back(detect::metrics()[metric].name);
  return {{"models", out},
          {"seconds", seconds},
          {"metrics", list},
          {"priority", order},
          {"in_tree", models.in_tree}};
}

ExitCode run_train(DetectTrainArguments& arguments) {
  detect::TrainOptions& options = arguments.options;
  options.metrics = detect::metric_choice(arguments.metrics);
  options.limits = detect::limits_with(arguments.limits);
  const Stopwatch watch;
  const auto folders = detect::case_folders(arguments.folders);
  std::vector<detect::LabelledCase> cases = read_cases(folders, options, "reading");
  std::vector<detect::Pull> pulls;
  for (const detect::LabelledCase& each : cases) pulls.push_back(each.pull);
  detect::Models models = detect::train_models(pulls, options);
  // Thresholds and order need truth: that of cases of their own where there are some.
  const auto own = arguments.validate.empty() ? folders : detect::case_folders(arguments.validate);
  const bool labelled = all_have_truth(own);
  if (!labelled && !arguments.validate.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "thresholds cannot be chosen",
                 .expected = "truth.json in every folder of --validate",
                 .found = "folders without"});
  }
  if (labelled) {
    if (!arguments.validate.empty()) cases = read_cases(own, options, "reading validation");
    detect::learn_priority(models, cases);
    std::vector<detect::Variant> variants;
    for (const std::string& name : arguments.variants) variants.push_back(detect::variant_named(name));
    if (std::any_of(variants.begin(), variants.end(),
                    [](detect::Variant variant) { return variant >= detect::Variant::kMd; }))
      detect::choose_mahalanobis(models, pulls, cases, options.seed);
    detect::tune_models(models, cases, variants);
  }
  detect::save_models(arguments.out, models);
  if (arguments.json) {
    print_json(trained_json(models, arguments.out, watch.seconds()));
    return ExitCode::kDone;
  }
  observe::Table table("denoisers", {{"metric"},
                                     {"parameters", Align::kRight},
                                     {"squared error", Align::kRight},
                                     {"KL", Align::kRight},
                                     {"variance kept", Align::kRight},
                                     {"order", Align::kRight}});
  for (const detect::TrainedVae& vae : models.vaes) {
    const auto place = std::find(models.priority.begin(), models.priority.end(), vae.metrics.front()) -
                       models.priority.begin();
    table.row({std::string(detect::metrics()[vae.metrics.front()].name),
               fmt::format("{}", vae.shape.parameters()), fmt::format("{:.2e}", vae.error),
               fmt::format("{:.1f}", vae.kl), fmt::format("{:.2f}", vae.retained),
               fmt::format("{}{}", place + 1, static_cast<size_t>(place) < models.in_tree ? "" : "*")});
  }
  print(table.text(colours_wanted(stdout)));
  print(fmt::format("\n{} in {:.0f} s, from {}. {}\n", arguments.out, watch.seconds(),
                    counted(static_cast<int64_t>(folders.size()), "case"),
                    labelled ? "* not used by the decision tree. Thresholds were chosen by F1 on " +
                                   std::string(arguments.validate.empty() ? "the same cases: score others."
                                                                          : "the validation cases.")
                             : "Without truth.json thresholds stay at their defaults (share 0.7, distance "
                               "0.05), and the order is the paper's."));
  for (const detect::TrainedVae& vae : models.vaes) {
    if (vae.retained < 0.5)
      print(
          fmt::format("{}: the denoiser keeps {:.0f} % of the variance; it may be blind. Train longer "
                      "(--steps) or with a smaller --beta.\n",
                      detect::metrics()[vae.metrics.front()].name, 100 * vae.retained));
  }
  return ExitCode::kDone;
}

void add_detect_train(Command& group) {
  auto arguments = std::make_shared<DetectTrainArguments>();
  arguments->variants = {"minder", "raw"};
  Command train =
      group.add("train", "denoisers of all metrics, their order and thresholds, from recorded metrics",
                {{"from simulated cases", "detect train cases/train --out minder.safetensors"},
                 {"thresholds chosen on other cases",
                  "detect train cases/train --validate cases/validation --out minder.safetensors"},
                 {"from a run of `launch`, whose machines have no GPUs",
                  "detect train runs/big --metrics cpu_usage,memory_usage --out minder.safetensors"}});
  train
      .option("DIR", arguments->folders,
              "folders with a CSV file a metric, runs of `launch`, or folders of such folders")
      .required();
  train.option("--out", arguments->out, "file to write the models to").required();
  train.option("--validate", arguments->validate,
               "folders with truth.json to choose thresholds on (default: those of DIR that have it)");
  train
      .option("--variant", arguments->variants,
              "thresholds for: minder, raw, mean, robust-z, con, int, md, md-joint; repeated")
      .one_of(detect::variant_names());
  train.option("--metrics", arguments->metrics, "used (seven), fewer, more, all (21), or names with commas")
      .default_shown();
  train.option("--limit", arguments->limits,
               "other limits of a metric, in its unit: gpu_power_draw=0:400; repeated");
  train.option("--steps", arguments->options.steps, "of Adam, a model")
      .at_least(10)
      .at_most(1'000'000)
      .default_shown();
  train.option("--batch", arguments->options.batch, "windows a step")
      .at_least(16)
      .at_most(65'536)
      .default_shown();
  train.option("--beta", arguments->options.beta, "weight of the KL term")
      .above(0)
      .at_most(1)
      .default_shown();
  train.option("--window", arguments->options.shape.window, "samples a window (s)")
      .at_least(2)
      .at_most(60)
      .default_shown();
  train.option("--seed", arguments->options.seed, "of weights and draws").default_shown();
  train.json_flag(arguments->json);
  train.on_run([arguments] { return run_train(*arguments); });
}

}  // namespace

void add_detect(Command& program) {
  Command detect = program.add_group(
      "detect", "the faulty machine among thousands, from one-second metrics (Minder)",
      {{"cases to train on", "detect simulate --machines 16 --seed 1000 --cases 60 --out cases/train"},
       {"models from them", "detect train cases/train --out minder.safetensors"},
       {"which machine?", "detect run cases/one --models minder.safetensors"}});
  add_simulate(detect);
  add_detect_train(detect);
  add_detect_run(detect);
  add_detect_score(detect);
  add_detect_trial(detect);
}

}  // namespace longhaul::cli
