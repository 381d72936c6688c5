// `longhaul plan RECIPE --cluster FILE|NAME`, `plan explain`, `plan sizes`, `plan validate`;
// `plan scaling` stands in
// plan_scaling.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/write_trace.h"
#include "optim/schedule.h"
#include "plan/calibration.h"
#include "plan/predicted_trace.h"
#include "plan/search/plan_page.h"
#include "plan/search/plan_report.h"
#include "plan/search/plan_sizes.h"
#include "plan/validation_report.h"
#include "recipe/load.h"
#include "run/local_cluster.h"

namespace longhaul::cli {

void add_plan_scaling(Command& plan);  // plan_scaling.cpp

namespace {

struct PlanArguments {
  std::string recipe, cluster = "h100", calibrate, trace, page;
  std::vector<std::string> overrides;
  int64_t gpus = 0, keep = 10;
  double tokens = 0;
  bool own = false, json = false;
};

plan::Cluster cluster_of(const PlanArguments& a) {
  return a.cluster == "local" ? run::local_cluster(a.gpus) : plan::load_cluster(a.cluster, a.gpus);
}

plan::PlanReport report_of(const PlanArguments& a) {
  if (a.recipe.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "what is to be planned is not told",
                 .expected = "a recipe, or one of explain, sizes, validate and scaling",
                 .hint = "plan recipes/first-run.toml --cluster h100 --gpus 8"});
  }
  const recipe::LoadedRecipe loaded = recipe::load(a.recipe, a.overrides);
  const recipe::Recipe& recipe = loaded.recipe;
  plan::PlanReport report{.recipe = a.recipe, .cluster = cluster_of(a), .work = {}};
  if (!a.calibrate.empty()) report.cluster.efficiency = plan::calibrated(a.calibrate, report.cluster);
  const optim::TrainSchedule schedule(recipe.optim, recipe.train);
  // The stage with the longest sequences decides what fits.
  const optim::StageState& longest = *std::ranges::max_element(
      schedule.stages(), {},
      [](const optim::StageState& each) { return std::pair(each.sequence, each.batch); });
  if (schedule.changes_sequence()) {
    log_info("planned: the stage from step {} on, with {} sequences of {} tokens (optim.stages)",
             longest.first_step, longest.batch, longest.sequence);
  }
  report.work = plan::work_of(recipe.model, longest.sequence);
  report.batch = longest.batch;
  report.tokens = a.tokens > 0 ? a.tokens : static_cast<double>(schedule.first_token(recipe.train.steps + 1));
  if (a.own) {
    plan::PlanLayout layout = plan::layout_of_recipe(recipe);
    layout.dp = std::max<int64_t>(1, report.cluster.gpus / (layout.tp * layout.pp * layout.cp));
    if (report.batch % (layout.dp * layout.micro_batch) != 0 || layout.world() != report.cluster.gpus) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the recipe's layout cannot be on this cluster",
                   .expected = fmt::format(
                       "a multiple of tp · pp · cp = {} devices, and a batch that dp · micro-batch divides",
                       layout.tp * layout.pp * layout.cp),
                   .found = fmt::format("{} devices, batch {}", report.cluster.gpus, report.batch),
                   .where = "--own"});
    }
    report.found.best = {plan::evaluate(report.work, layout, report.cluster, report.batch)};
    report.found.tried = 1;
  } else {
    report.found = plan::search(report.work, report.cluster,
                                {.batch = report.batch, .keep = a.keep, .context = recipe.parallel.context});
  }
  return report;
}

void declare_cluster(Command& command, PlanArguments& a) {
  command.option("RECIPE", a.recipe, "a recipe file (TOML)");
  command.overrides(a.overrides);
  command
      .option("--cluster", a.cluster,
              "an accelerator's name, a TOML file (docs/guides/plan.md), or local: this machine as measured")
      .default_shown();
  command.option("--gpus", a.gpus, "devices (default: the cluster's)").at_least(1);
  command.option("--tokens", a.tokens, "of the whole training (default: the recipe's)").at_least(0);
  command.option("--calibrate", a.calibrate, "a run folder: efficiencies such that its steps are predicted");
}

void declare_plan(Command& command, PlanArguments& a) {
  declare_cluster(command, a);
  command.option(
      "--trace", a.trace,
      "a file: the fastest plan's step for Perfetto or chrome://tracing, a row a stage (.pftrace: protobuf)");
  command.option(
      "--page", a.page,
      "a file: layouts, their time by part and memory by purpose, and why others fell, as a page to look at");
  command.json_flag(a.json);
}

void write_plan_page(const PlanArguments& a, const plan::PlanReport& report) {
  if (a.page.empty()) return;
  write_text_atomically(a.page, plan::plan_page(report));
  if (!a.json) print(fmt::format("page: {}\n", a.page));
}

// A step has no clock; a trace needs one.
void write_planned_trace(const PlanArguments& a, const plan::PlanReport& report) {
  if (a.trace.empty() || report.found.best.empty()) return;
  const plan::PlanCandidate& best = report.found.best.front();
  write_trace(
      plan::predicted_trace(best.layout, report.batch, best.parts, plan::ranks_of_stages(best.layout), 1, 0),
      a.trace);
  if (!a.json)
    print(fmt::format("{}: a step of {}; open it at https://ui.perfetto.dev or chrome://tracing\n", a.trace,
                      best.layout.text()));
}

void add_plan_explain(Command& plan) {
  auto arguments = std::make_shared<PlanArguments>();
  Command explain =
      plan.add("explain", "where time and memory of a plan go, and what the next change would gain",
               {{"of the fastest layout", "plan explain recipes/gpt2-124m.toml --cluster h100 --gpus 64"},
                {"of the layout that the recipe has", "plan explain recipes/gpt2-124m.toml --own --gpus 8"},
                {"for a script", "plan explain recipes/gpt2-124m.toml --cluster a100 --json"}});
  declare_plan(explain, *arguments);
  explain.flag("--own", arguments->own, "the layout of the recipe's [parallel], not the fastest");
  explain.on_run([arguments] {
    const plan::PlanReport report = report_of(*arguments);
    write_planned_trace(*arguments, report);
    write_plan_page(*arguments, report);
    if (report.found.best.empty()) {
      print(plan::plan_text(report, colours_wanted(stdout)));
      return ExitCode::kCheckFailed;
    }
    if (arguments->json) {
      print_json(plan::explain_json(report, report.found.best.front()));
    } else {
      print(plan::explain_text(report, report.found.best.front(), colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

// All powers of two up to the cluster's devices, and these.
std::vector<int64_t> sizes_up_to(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t gpus = 1; gpus < most; gpus *= 2) sizes.push_back(gpus);
  sizes.push_back(most);
  return sizes;
}

void add_plan_sizes(Command& plan) {
  struct SizesArguments {
    PlanArguments plan;
    std::string by = "days";
  };
  auto arguments = std::make_shared<SizesArguments>();
  Command sizes =
      plan.add("sizes", "how many devices: days, price, energy and carbon of a training at each number",
               {{"up to 512 devices, the least carbon first",
                 "plan sizes recipes/gpt2-124m.toml --cluster h100 --gpus 512 --by carbon"},
                {"by the price, which the cluster's file tells",
                 "plan sizes recipes/gpt2-124m.toml --cluster mine.toml --by price"},
                {"for a script", "plan sizes recipes/gpt2-124m.toml --gpus 64 --json"}});
  declare_cluster(sizes, arguments->plan);
  sizes.option("--by", arguments->by, "what comes first: the least of this")
      .one_of(plan::names_of(plan::PlanGoal::kDays))
      .default_shown();
  sizes.json_flag(arguments->plan.json);
  sizes.on_run([arguments] {
    PlanArguments each = arguments->plan;
    each.keep = 1;
    const auto names = plan::names_of(plan::PlanGoal::kDays);
    const auto goal = static_cast<plan::PlanGoal>(std::ranges::find(names, arguments->by) - names.begin());
    const std::vector<int64_t> numbers = sizes_up_to(each.gpus > 0 ? each.gpus : cluster_of(each).gpus);
    std::vector<plan::PlanReport> reports;
    {
      Progress progress("planning", static_cast<int64_t>(numbers.size()));
      for (const int64_t gpus : numbers) {
        each.gpus = gpus;
        reports.push_back(report_of(each));
        progress.advance(1);
      }
    }
    const plan::PlanSizes planned = plan::plan_sizes(reports, goal);
    if (each.json) {
      print_json(plan::sizes_json(planned, goal));
    } else {
      print(plan::sizes_text(planned, goal, colours_wanted(stdout)));
    }
    return planned.sizes.empty() ? ExitCode::kCheckFailed : ExitCode::kDone;
  });
}

struct ValidateArguments {
  std::string page;
  bool json = false;
};

void add_validate(Command& plan) {
  auto arguments = std::make_shared<ValidateArguments>();
  Command validate = plan.add(
      "validate", "published steps beside what the model says of them, row by row",
      {{"every row, and the errors of those held out, on a page too", "plan validate --page validate.html"},
       {"for a script", "plan validate --json"},
       {"the rows that constants were not fitted on",
        "plan validate --json | jq '.rows[] | select(.held_out)'"}});
  validate.option("--page", arguments->page, "a file: published beside predicted as a page to look at");
  validate.json_flag(arguments->json);
  validate.on_run([arguments] {
    const std::vector<plan::SearchCheck> searches = plan::check_searches();
    if (arguments->json) {
      print_json(plan::validation_json(searches));
    } else {
      print(plan::validation_text(searches, colours_wanted(stdout)));
    }
    if (!arguments->page.empty()) {
      write_text_atomically(arguments->page, plan::validation_page());
      if (!arguments->json) print(fmt::format("page: {}\n", arguments->page));
    }
    return plan::validation_holds(searches) ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace

void add_plan(Command& program) {
  auto arguments = std::make_shared<PlanArguments>();
  Command plan = program.add(
      "plan", "before a run: layouts on a cluster, their time, memory, failures, price and energy",
      {{"a recipe on 64 H100s, as a page, and the fastest layout's step as a trace",
        "plan recipes/gpt2-124m.toml --cluster h100 --gpus 64 --page plan.html --trace step.json"},
       {"a 175B model on 12,288 A100s",
        "plan recipes/first-run.toml model.preset=megascale-175b train.sequence=2048 train.batch=6144 "
        "train.micro_batch=1 --cluster a100 --gpus 12288"},
       {"for a script", "plan recipes/gpt2-124m.toml --cluster mine.toml --json"}});
  declare_plan(plan, *arguments);
  plan.option("--keep", arguments->keep, "layouts shown").at_least(1).default_shown();
  plan.on_run([arguments] {
    const plan::PlanReport report = report_of(*arguments);
    write_planned_trace(*arguments, report);
    write_plan_page(*arguments, report);
    if (arguments->json) {
      print_json(plan::plan_json(report));
    } else {
      print(plan::plan_text(report, colours_wanted(stdout)));
    }
    return report.found.best.empty() ? ExitCode::kCheckFailed : ExitCode::kDone;
  });
  add_plan_explain(plan);
  add_plan_sizes(plan);
  add_validate(plan);
  add_plan_scaling(plan);
}

}  // namespace longhaul::cli
