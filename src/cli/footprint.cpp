// `longhaul footprint plan|run|compare|tables`
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/file.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/output.h"
#include "detect/samples/run_machines.h"
#include "observe/format.h"
#include "observe/table.h"
#include "optim/schedule.h"
#include "plan/flops.h"
#include "plan/footprint/calculators.h"
#include "plan/footprint/carbon_hours.h"
#include "plan/footprint/footprint_report.h"
#include "plan/footprint/run_footprint.h"
#include "recipe/load.h"

namespace longhaul::cli {
namespace {

using plan::Sourced;

// Where it runs: options that all of them have.
struct PlaceArguments {
  std::string grid, mix, carbon_hours, embodied = "both";
  std::optional<double> carbon, market, pue, water_on_site, water_grid;

  void declare(Command& command) {
    command.option(
        "--grid", grid,
        "whose power: a region or a kind of power station (footprint tables); default: the world's mean");
    command.option("--mix", mix, "shares of power stations: coal=0.25,gas=0.75");
    command.option("--carbon", carbon, "g CO2e per kWh, where you know it");
    command.option("--carbon-hours", carbon_hours,
                   "a CSV file with the columns hour (0 to 23, UTC) and g_per_kwh");
    command.option("--market-carbon", market, "g CO2e per kWh by certificates bought: told beside the other");
    command.option("--pue", pue,
                   "energy of the facility over that of its machines (default 1.54, the world's mean)");
    command
        .option("--embodied", embodied,
                "embodied carbon of a device: by its die, by its life-cycle, or both where both are known")
        .one_of({"both", "die", "life-cycle"})
        .default_shown();
    command.option("--water-on-site", water_on_site, "L per kWh of the machines (default 0.19)");
    command.option("--water-grid", water_grid, "L per kWh of the facility, at power stations (default 2.45)");
  }

  plan::Place place() const {
    if (!mix.empty() + !grid.empty() + carbon.has_value() + !carbon_hours.empty() > 1) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the carbon of the power is told twice",
                   .expected = "one of --grid, --mix, --carbon and --carbon-hours"});
    }
    plan::Place place = plan::default_place();
    const auto given = [](std::optional<double> value, const char* option, const char* unit, double least,
                          double most, Sourced& into) {
      if (!value) return;
      plan::require_number(*value, option, unit, least, most);
      into.value = {*value, 0};
      into.source = fmt::format("given: {}", option);
    };
    if (!grid.empty())
      place.carbon = {"carbon_g_per_kwh", plan::grid(grid).value,
                      fmt::format("grid {}: {}", grid, plan::grid(grid).source)};
    if (!mix.empty()) place.carbon = plan::grid_mix(mix);
    given(carbon, "--carbon", "g CO2e per kWh", 0, 5000, place.carbon);
    given(pue, "--pue", "facility energy over machine energy", 1, 10, place.pue);
    given(water_on_site, "--water-on-site", "L per kWh", 0, 100, place.water_on_site);
    given(water_grid, "--water-grid", "L per kWh", 0, 1000, place.water_grid);
    if (market) {
      place.market_carbon.emplace(Sourced{"market_carbon_g_per_kwh", {}, ""});
      given(market, "--market-carbon", "g CO2e per kWh", 0, 5000, *place.market_carbon);
    }
    return place;
  }
};

struct OutputArguments {
  std::string out;
  bool json = false;
  void declare(Command& command) {
    command.option("--out", out, "a page to write as well: HTML, or Markdown where it ends in .md");
    command.json_flag(json);
  }
  void write(const std::string& page, const std::string& markdown) const {
    if (!out.empty()) write_text_atomically(out, out.ends_with(".md") ? markdown : page);
  }
};

void print_footprint(const plan::Footprint& footprint, const OutputArguments& output) {
  output.write(plan::footprint_page(footprint), plan::footprint_markdown(footprint));
  if (output.json) {
    print_json(plan::footprint_json(footprint));
  } else {
    print(plan::footprint_text(footprint, colours_wanted(stdout)) +
          (output.out.empty() ? "" : "\n" + output.out + "\n"));
  }
}

struct PlanFootprintArguments {
  std::string recipe, inventory, accelerator;
  // A recipe is planned for what `plan` plans it for; the published sums that --flops and --parameters repeat
  // are of A100s.
  std::string device() const { return !accelerator.empty() ? accelerator : recipe.empty() ? "a100" : "h100"; }
  std::vector<std::string> overrides;
  std::optional<double> flops, parameters, tokens, start_hour;
  double gpus = 0, mfu = 0.35, years = 2, duty = 1, overhead = 0;
  PlaceArguments place;
  OutputArguments output;
};

// The mean over the steps, whose sequences may have several lengths.
double flops_per_token(const recipe::ModelConfig& model, const optim::TrainSchedule& schedule,
                       int64_t steps) {
  double flops = 0;
  const std::vector<optim::StageState>& stages = schedule.stages();
  for (size_t i = 0; i < stages.size() && stages[i].first_step <= steps; ++i) {
    const int64_t end = i + 1 < stages.size() ? std::min(stages[i + 1].first_step, steps + 1) : steps + 1;
    const int64_t tokens = schedule.first_token(end) - stages[i].first_token;
    flops += plan::training_flops_per_token(model, stages[i].sequence).causal() * static_cast<double>(tokens);
  }
  return flops / static_cast<double>(schedule.first_token(steps + 1));
}

// What is trained: exactly one of a recipe, FLOPs, or parameters and tokens.
void set_work(const PlanFootprintArguments& a, plan::PlannedWork& work) {
  if (a.flops.has_value() + a.parameters.has_value() + !a.recipe.empty() != 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "what is trained must be told once",
                 .expected = "a recipe, or --flops F, or --parameters N --tokens D",
                 .hint = "footprint plan --flops 1.7316e25"});
  }
  if (a.tokens) plan::require_number(*a.tokens, "--tokens", "tokens", 0, 1e18);
  work.tokens = a.tokens.value_or(0);
  if (a.flops) {
    plan::require_number(*a.flops, "--flops", "FLOPs", 0, 1e40);
    work.flops = *a.flops;
  } else if (a.parameters) {
    plan::require_number(*a.parameters, "--parameters", "parameters that a token passes through", 0, 1e16);
    if (!a.tokens)
      throw Error({.code = ExitCode::kUsage,
                   .what = "--parameters needs --tokens",
                   .expected = "--tokens, the tokens of the training"});
    work.flops = 6 * *a.parameters * *a.tokens;
  } else {
    const recipe::LoadedRecipe loaded = recipe::load(a.recipe, a.overrides);
    const auto& train = loaded.recipe.train;
    const optim::TrainSchedule schedule(loaded.recipe.optim, train);
    if (!a.tokens) work.tokens = static_cast<double>(schedule.first_token(train.steps + 1));
    work.flops = flops_per_token(loaded.recipe.model, schedule, train.steps) * work.tokens;
  }
}

ExitCode run_plan_footprint(const PlanFootprintArguments& a) {
  plan::PlannedWork work{.device = plan::accelerator(a.device()),
                         .gpus = a.gpus,
                         .mfu = a.mfu,
                         .years = a.years,
                         .duty = a.duty,
                         .overhead = a.overhead};
  set_work(a, work);
  work.place = a.place.place();
  work.embodied = plan::embodied_source(a.place.embodied);
  if (!a.inventory.empty())
    work.inventory = plan::read_inventory(read_text(a.inventory), a.inventory, a.device());
  plan::Footprint footprint = plan::planned_footprint(work);
  if (!a.place.carbon_hours.empty()) {
    const auto day = plan::CarbonHours::read(read_text(a.place.carbon_hours), a.place.carbon_hours);
    const double hours = footprint.input.device_hours / std::max(1.0, a.gpus);
    if (a.start_hour) plan::require_number(*a.start_hour, "--start-hour", "hours of the day, UTC", 0, 24);
    const double start = a.start_hour.value_or(day.best_start(hours));
    const double mean = day.mean(start, hours);
    work.place.carbon = {"carbon_g_per_kwh",
                         {mean, 0.05 * mean},
                         fmt::format("{}, {:.1f} h from {:g}:00 UTC{}; ± 5 % (ours)", a.place.carbon_hours,
                                     hours, start, a.start_hour ? "" : ", the best hour to begin")};
    footprint = plan::planned_footprint(work);
  }
  footprint.input.title = fmt::format("{} on {}s at {:.3g} % of the peak",
                                      a.recipe.empty() ? fmt::format("{:.4g} FLOPs", work.flops) : a.recipe,
                                      a.device(), 100 * a.mfu);
  print_footprint(footprint, a.output);
  return ExitCode::kDone;
}

void add_plan_footprint(Command& group) {
  auto arguments = std::make_shared<PlanFootprintArguments>();
  Command command =
      group.add("plan", "of a training that has not been: a recipe, FLOPs, or parameters and tokens",
                {{"what GPT-4 is said to have taken: 2,515 A100s of two years at 35 %",
                  "footprint plan --flops 1.7316e25"},
                 {"a recipe on 64 H100s in Iowa, as a page",
                  "footprint plan recipes/gpt2-124m.toml --device h100 --gpus 64 --grid us-central1 --out "
                  "footprint.html"},
                 {"Llama-2-70B by its size, for a script",
                  "footprint plan --parameters 70e9 --tokens 2e12 --mfu 0.45 --json"}});
  command.option("RECIPE", arguments->recipe, "a recipe file (TOML)");
  command.overrides(arguments->overrides);
  command.option("--flops", arguments->flops, "model FLOPs of the whole training");
  command.option("--parameters", arguments->parameters,
                 "those that a token passes through: FLOPs are 6 · parameters · tokens");
  command.option("--tokens", arguments->tokens, "of the whole training");
  command.option("--device", arguments->accelerator,
                 "what it runs on (plan --help lists them; default: h100 for a recipe, as plan has it, a100 "
                 "for --flops and --parameters)");
  command.option("--gpus", arguments->gpus, "how many, where the hour matters").above(0);
  command.option("--mfu", arguments->mfu, "share of the dense peak that model FLOPs take").default_shown();
  command.option("--life", arguments->years, "years of a device").default_shown();
  command.option("--duty", arguments->duty, "share of its life in which a device works").default_shown();
  command.option("--overhead", arguments->overhead, "time lost beside useful steps, as a share of them")
      .default_shown();
  command.option("--start-hour", arguments->start_hour,
                 "with --carbon-hours: hour of the day, UTC (default: the best one)");
  command.option("--inventory", arguments->inventory,
                 "a CSV file of what a device is made of (docs/guides/footprint.md)");
  arguments->place.declare(command);
  arguments->output.declare(command);
  command.on_run([arguments] { return run_plan_footprint(*arguments); });
}

struct RunFootprintArguments {
  std::string run, second, accelerator;
  double years = 3;
  PlaceArguments place;
  OutputArguments output;

  void declare(Command& command) {
    command.option("--device", accelerator, "of a run on GPUs: which (default there: a100)");
    command.option("--life", years, "years of a machine").default_shown();
    place.declare(command);
    output.declare(command);
  }
  plan::Footprint of(const std::string& folder) const {
    plan::RunAssumptions assumptions{.years = years,
                                     .place = place.place(),
                                     .accelerator = accelerator,
                                     .carbon_hours = {},
                                     .carbon_hours_name = place.carbon_hours,
                                     .embodied = plan::embodied_source(place.embodied),
                                     .machines = {}};
    if (!place.carbon_hours.empty()) assumptions.carbon_hours = read_text(place.carbon_hours);
    assumptions.machines = detect::machines_of_run(folder);
    return plan::run_footprint(folder, assumptions);
  }
};

void add_run_footprint(Command& group) {
  auto arguments = std::make_shared<RunFootprintArguments>();
  Command command =
      group.add("run", "of a run, from its events: measured where the machine has meters, else modelled",
                {{"what a run has cost so far", "footprint run runs/first-run"},
                 {"with the power and cooling of where it stood",
                  "footprint run runs/first-run --grid europe-west6 --pue 1.1"},
                 {"for a script", "footprint run runs/first-run --json"}});
  command.option("RUN", arguments->run, "a run folder").required();
  arguments->declare(command);
  command.on_run([arguments] {
    print_footprint(arguments->of(arguments->run), arguments->output);
    return ExitCode::kDone;
  });
}

void add_compare_footprints(Command& group) {
  auto arguments = std::make_shared<RunFootprintArguments>();
  Command command =
      group.add("compare", "two runs: what a token took of utilisation, lives of devices, energy and carbon",
                {{"the same model, slowly and fast", "footprint compare runs/slow runs/fast"},
                 {"as a page", "footprint compare runs/slow runs/fast --out compare.html"},
                 {"for a script", "footprint compare runs/slow runs/fast --json"}});
  command.option("FIRST", arguments->run, "a run folder").required();
  command.option("SECOND", arguments->second, "another").required();
  arguments->declare(command);
  command.on_run([arguments] {
    const plan::FootprintComparison comparison{arguments->of(arguments->run),
                                               arguments->of(arguments->second)};
    const OutputArguments& output = arguments->output;
    if (!comparison.per_token()) {
      throw Error({.code = ExitCode::kData,
                   .what = "the runs cannot be compared by token",
                   .expected = "tokens in the steps of both"});
    }
    output.write(plan::comparison_page(comparison), plan::comparison_markdown(comparison));
    if (output.json) {
      print_json(plan::comparison_json(comparison));
    } else {
      print(plan::comparison_text(comparison, colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

void add_footprint_tables(Command& group) {
  auto json = std::make_shared<bool>(false);
  Command command = group.add("tables",
                              "every constant with its source, and published calculators' figures computed "
                              "again (exit 1 when one differs)",
                              {{"names for --grid, and where the numbers are from", "footprint tables"},
                               {"for a script", "footprint tables --json"},
                               {"the published figures alone", "footprint tables --json | jq .published"}});
  command.json_flag(*json);
  command.on_run([json] {
    const auto published = plan::calculator_rows();
    const bool good = std::ranges::all_of(published, &plan::CalculatorRow::good);
    if (*json) {
      nlohmann::ordered_json all = {{"good", good},
                                    {"published", nlohmann::ordered_json::array()},
                                    {"grids", nlohmann::ordered_json::array()}};
      for (const auto& row : published) {
        all["published"].push_back({{"calculator", row.calculator},
                                    {"name", row.name},
                                    {"unit", row.unit},
                                    {"published", row.published},
                                    {"computed", row.computed},
                                    {"good", row.good()},
                                    {"fitted", row.fitted}});
      }
      for (const auto& row : plan::grids()) {
        all["grids"].push_back({{"name", row.name},
                                {"g_per_kwh", row.value.value},
                                {"g_per_kwh_sigma", row.value.sigma},
                                {"source", row.source}});
      }
      print_json(all);
      return good ? ExitCode::kDone : ExitCode::kCheckFailed;
    }
    observe::Table grids("carbon of a kWh", {{"grid"}, {"g CO2e", observe::Align::kRight}, {"source"}});
    for (const auto& row : plan::grids())
      grids.row({row.name, fmt::format("{:g}", row.value.value), row.source});
    observe::Table figures("published figures, computed again", {{"calculator"},
                                                                 {"of"},
                                                                 {"unit"},
                                                                 {"published", observe::Align::kRight},
                                                                 {"computed", observe::Align::kRight},
                                                                 {""}});
    for (const auto& row : published) {
      figures.row({row.calculator, row.name, row.unit, fmt::format("{:g}", row.published),
                   fmt::format("{:.6g}", row.computed),
                   !row.good()  ? "differs"
                   : row.fitted ? "fitted to it"
                                : "good"});
    }
    print(grids.text(colours_wanted(stdout)) + "\n" + figures.text(colours_wanted(stdout)));
    return good ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace

void add_footprint(Command& program) {
  Command group =
      program.add_group("footprint", "what a training costs of devices, materials, energy, carbon and water",
                        {{"a training by its FLOPs", "footprint plan --flops 1.7316e25"},
                         {"a run that was", "footprint run runs/first-run"},
                         {"two runs side by side", "footprint compare runs/slow runs/fast"}});
  add_plan_footprint(group);
  add_run_footprint(group);
  add_compare_footprints(group);
  add_footprint_tables(group);
}

}  // namespace longhaul::cli
