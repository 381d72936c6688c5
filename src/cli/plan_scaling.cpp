// `longhaul plan scaling RUN… [--json] [--page FILE]`
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/charts/heat_map.h"
#include "observe/charts/log_plot.h"
#include "observe/events/run_history.h"
#include "observe/table.h"
#include "plan/scaling/scaling_study.h"
#include "recipe/load.h"
#include "recipe/mixers.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using observe::Align;

struct ScalingArguments {
  std::vector<std::string> runs;
  std::string page;
  double skip = 0.05, window = 0.1;
  int64_t points = 200;
  bool study = false, json = false;
};

// Runs of one kind of model.
struct ScalingGroup {
  std::string name;
  std::vector<plan::LossCurve> curves;
  plan::ScalingLaws laws;
};

// What the run's layers are made of: "hgrn2", "lightning + softmax".
std::string kind_of_run(const fs::path& run) {
  const fs::path file = run / "recipe.toml";
  if (!fs::exists(file)) return "unknown";
  std::vector<std::string> names;
  for (const recipe::Mixer mixer : recipe::mixers_used(recipe::load(file).recipe.model))
    names.emplace_back(recipe::entry_of(mixer).name);
  return fmt::format("{}", fmt::join(names, " + "));
}

plan::LossCurve curve_of(const fs::path& run) {
  const observe::RunHistory history = observe::read_run(run);
  if (!history.start || !history.start->flops_per_token || history.steps.size() < 2) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "a run says nothing of scaling",
         .expected = "an events.jsonl with a run's start, its FLOP per token, and at least two steps",
         .found = history.start ? counted(static_cast<int64_t>(history.steps.size()), "step") : "no start",
         .where = run.string(),
         .hint = "name run folders of longhaul train"});
  }
  plan::LossCurve curve{.run = run.filename().string(),
                        .parameters = static_cast<double>(history.start->parameters_per_token),
                        .points = {}};
  for (const observe::StepReport& step : history.steps) {
    const auto tokens = static_cast<double>(step.tokens);
    if (std::isfinite(step.loss) && step.loss > 0 && tokens > 0 &&
        (curve.points.empty() || tokens > curve.points.back().tokens))
      curve.points.push_back({tokens * *history.start->flops_per_token, tokens, step.loss});
  }
  return curve;
}

std::vector<ScalingGroup> groups_of(const ScalingArguments& arguments) {
  std::map<std::string, ScalingGroup> by_name;
  Progress progress("reading runs", static_cast<int64_t>(arguments.runs.size()));
  for (const std::string& run : arguments.runs) {
    const std::string name = kind_of_run(run);
    by_name[name].name = name;
    by_name[name].curves.push_back(plan::smoothed(curve_of(run), arguments.window, arguments.skip));
    progress.advance(1);
  }
  std::vector<ScalingGroup> groups;
  for (auto& [name, group] : by_name) {
    group.laws = plan::scaling_laws(group.curves, arguments.points);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string law_text(const plan::PowerLaw& law, const char* variable) {
  if (law.points == 0 && law.factor == 0) return "one run alone";
  return fmt::format("{:.4g} · {}^{:.4f}", law.factor, variable, law.exponent);
}

ordered_json json_of_law(const plan::PowerLaw& law) {
  if (law.points == 0) return nullptr;
  return {{"factor", law.factor},
          {"exponent", law.exponent},
          {"deviation", law.deviation},
          {"points", law.points}};
}

ordered_json json_of_study() {
  ordered_json laws = ordered_json::array(), models = ordered_json::array();
  for (const plan::StudyLaws& study : plan::study_laws()) {
    const auto pair = [](const plan::PowerLaw& law) {
      return ordered_json{{"factor", law.factor}, {"exponent", law.exponent}};
    };
    laws.push_back({{"architecture", plan::name_of(study.architecture)},
                    {"loss_of_compute", pair(study.loss)},
                    {"parameters_of_compute", pair(study.parameters)},
                    {"tokens_of_compute", pair(study.tokens)}});
  }
  for (const plan::StudyModel& model : plan::study_models()) {
    ordered_json entry{{"name", model.name},
                       {"layers", model.shape.layers},
                       {"hidden", model.shape.hidden},
                       {"heads", model.shape.heads}};
    for (const plan::StudyArchitecture architecture : plan::kStudyArchitectures) {
      const plan::StudyShape shape = model.shape_of(architecture);
      entry[std::string(plan::name_of(architecture))] = {
          {"parameters", plan::study_parameters(architecture, shape)},
          {"flops_per_step", plan::study_training_flops(architecture, shape, plan::kStudySequence,
                                                        plan::kStudyBatch * plan::kStudySequence)}};
    }
    models.push_back(entry);
  }
  return {{"source", "arXiv 2406.16690, 2501.08313"},
          {"compute_unit", "PFLOP/s-day"},
          {"laws", laws},
          {"models", models}};
}

void print_study() {
  observe::Table laws("published laws (arXiv 2406.16690; hybrid_lightning: 2501.08313); C in PFLOP/s-days",
                      {{"architecture"}, {"loss"}, {"parameters"}, {"tokens"}});
  for (const plan::StudyLaws& study : plan::study_laws())
    laws.row({std::string(plan::name_of(study.architecture)), law_text(study.loss, "C"),
              law_text(study.parameters, "C"), law_text(study.tokens, "C")});
  print(laws.text(colours_wanted(stdout)));
  std::vector<observe::Column> columns = {{"model"}};
  for (const plan::StudyArchitecture architecture : plan::kStudyArchitectures)
    columns.push_back({std::string(plan::name_of(architecture)), Align::kRight});
  observe::Table models(
      "its models by our formulas: parameters without embeddings, and PFLOP of a step of 480 × 8,192 tokens",
      columns);
  for (const plan::StudyModel& model : plan::study_models()) {
    std::vector<std::string> cells = {std::string(model.name)};
    for (const plan::StudyArchitecture architecture : plan::kStudyArchitectures) {
      const plan::StudyShape shape = model.shape_of(architecture);
      cells.push_back(fmt::format("{:.1f} M, {:.2f}", plan::study_parameters(architecture, shape) / 1e6,
                                  plan::study_training_flops(architecture, shape, plan::kStudySequence,
                                                             plan::kStudyBatch * plan::kStudySequence) /
                                      1e15));
    }
    models.row(cells);
  }
  print(models.text(colours_wanted(stdout)));
}

ordered_json json_of(const ScalingGroup& group) {
  ordered_json runs = ordered_json::array(), envelope = ordered_json::array();
  for (const plan::LossCurve& curve : group.curves) {
    const bool any = !curve.points.empty();
    runs.push_back({{"run", curve.run},
                    {"parameters", curve.parameters},
                    {"tokens", any ? ordered_json(curve.points.back().tokens) : nullptr},
                    {"flops", any ? ordered_json(curve.points.back().compute) : nullptr},
                    {"loss", any ? ordered_json(curve.points.back().loss) : nullptr}});
  }
  for (const plan::EnvelopePoint& point : group.laws.envelope) {
    envelope.push_back({{"flops", point.compute},
                        {"parameters", point.parameters},
                        {"tokens", point.tokens},
                        {"loss", point.loss},
                        {"run", group.curves[point.curve].run}});
  }
  return {{"name", group.name},
          {"loss_of_compute", json_of_law(group.laws.loss_of_compute)},
          {"parameters_of_compute", json_of_law(group.laws.parameters_of_compute)},
          {"tokens_of_compute", json_of_law(group.laws.tokens_of_compute)},
          {"loss_of_parameters", json_of_law(group.laws.loss_of_parameters)},
          {"loss_of_tokens", json_of_law(group.laws.loss_of_tokens)},
          {"runs_on_envelope", group.laws.runs_on_envelope},
          {"runs", runs},
          {"envelope", envelope}};
}

constexpr const char* kColours[] = {"train", "eval", "xz", "gzip", "resume", "save"};

// One plot of the envelope's points with their law, for all groups. `curves`: the runs' own losses behind
// them.
observe::LogPlot plot_of(const std::vector<ScalingGroup>& groups, observe::LogPlot plot,
                         double plan::EnvelopePoint::*of_x, double unit, double plan::EnvelopePoint::*of_y,
                         plan::PowerLaw plan::ScalingLaws::*law, bool curves) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const ScalingGroup& group = groups[g];
    const std::string style = kColours[g % std::size(kColours)];
    if (curves) {
      for (const plan::LossCurve& curve : group.curves) {
        observe::LogSeries series{.name = {}, .style = style, .points = {}, .line = true, .faint = true};
        for (const plan::LossPoint& point : curve.points)
          series.points.push_back({point.compute / unit, point.loss});
        series.points = observe::thinned(series.points, 400);
        plot.series.push_back(std::move(series));
      }
    }
    observe::LogSeries points{.name = {}, .style = style, .points = {}, .dots = true};
    for (const plan::EnvelopePoint& point : group.laws.envelope)
      points.points.push_back({point.*of_x / unit, point.*of_y});
    const plan::PowerLaw& fitted = group.laws.*law;
    if (fitted.points == 0) {
      points.name = group.name;
    } else {
      observe::LogSeries line{.name = fmt::format("{}: exponent {:.4f}", group.name, fitted.exponent),
                              .style = style,
                              .points = {},
                              .line = true,
                              .dashed = true};
      const auto [low, high] = std::ranges::minmax_element(points.points, {}, &observe::Point::x);
      for (const double x : {low->x, high->x}) line.points.push_back({x, fitted.at(x)});
      plot.series.push_back(std::move(line));
    }
    plot.series.push_back(std::move(points));
  }
  return plot;
}

void write_scaling_page(const ScalingArguments& arguments, const std::vector<ScalingGroup>& groups) {
  using Laws = plan::ScalingLaws;
  using Point = plan::EnvelopePoint;
  observe::ResultPage page{
      .title = "Scaling laws",
      .kicker = "plan scaling",
      .summary = "The lowest loss that any run reached with the compute, and what it was reached with.",
      .tiles = {},
      .maps = {},
      .body = fmt::format("<style>{}</style>", observe::kLogPlotStyle),
      .facts = {}};
  page.body += plot_of(groups,
                       {.title = "Loss against compute",
                        .caption = "Thin: runs. Dots: the envelope. Dashed: its law.",
                        .x_name = "PFLOP/s-days",
                        .y_name = "loss, nats a token"},
                       &Point::compute, plan::kPetaflopDay, &Point::loss, &Laws::loss_of_compute, true)
                   .html();
  page.body +=
      plot_of(groups,
              {.title = "Parameters of the best run",
               .x_name = "PFLOP/s-days",
               .y_name = "parameters without embeddings"},
              &Point::compute, plan::kPetaflopDay, &Point::parameters, &Laws::parameters_of_compute, false)
          .html();
  page.body +=
      plot_of(groups, {.title = "Tokens of the best run", .x_name = "PFLOP/s-days", .y_name = "tokens"},
              &Point::compute, plan::kPetaflopDay, &Point::tokens, &Laws::tokens_of_compute, false)
          .html();
  page.body += plot_of(groups,
                       {.title = "Loss against parameters",
                        .x_name = "parameters without embeddings",
                        .y_name = "loss, nats a token"},
                       &Point::parameters, 1, &Point::loss, &Laws::loss_of_parameters, false)
                   .html();
  page.body +=
      plot_of(groups, {.title = "Loss against tokens", .x_name = "tokens", .y_name = "loss, nats a token"},
              &Point::tokens, 1, &Point::loss, &Laws::loss_of_tokens, false)
          .html();
  for (const ScalingGroup& group : groups) {
    page.tiles.emplace_back(group.name + ": loss",
                            fmt::format("C^{:.4f}", group.laws.loss_of_compute.exponent));
    page.facts.emplace_back(group.name, fmt::format("{}; L = {}, N = {}, D = {}",
                                                    counted(static_cast<int64_t>(group.curves.size()), "run"),
                                                    law_text(group.laws.loss_of_compute, "C"),
                                                    law_text(group.laws.parameters_of_compute, "C"),
                                                    law_text(group.laws.tokens_of_compute, "C")));
  }
  page.facts.emplace_back("left out",
                          fmt::format("the first {:g} % of each run's tokens", 100 * arguments.skip));
  page.facts.emplace_back(
      "losses", fmt::format("means over windows of {:g} in the logarithm of compute", arguments.window));
  write_text_atomically(arguments.page, page.html());
  if (!arguments.json) print(fmt::format("page: {}\n", arguments.page));
}

ExitCode run_scaling(const ScalingArguments& arguments) {
  if (arguments.runs.empty() && !arguments.study) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there are no runs",
                 .expected = "run folders of models of several sizes, or --study",
                 .found = "neither",
                 .hint = "recipes/scaling/README.md trains such a ladder"});
  }
  const std::vector<ScalingGroup> groups = groups_of(arguments);
  if (arguments.json) {
    ordered_json json{{"compute_unit", "PFLOP/s-day"}, {"groups", ordered_json::array()}};
    for (const ScalingGroup& group : groups) json["groups"].push_back(json_of(group));
    if (arguments.study) json["study"] = json_of_study();
    print_json(json);
  } else if (!groups.empty()) {
    observe::Table table("laws of the envelope; C in PFLOP/s-days", {{"model"},
                                                                     {"runs", Align::kRight},
                                                                     {"loss"},
                                                                     {"parameters"},
                                                                     {"tokens"},
                                                                     {"off by", Align::kRight}});
    for (const ScalingGroup& group : groups) {
      table.row({group.name, fmt::format("{} of {}", group.laws.runs_on_envelope, group.curves.size()),
                 law_text(group.laws.loss_of_compute, "C"), law_text(group.laws.parameters_of_compute, "C"),
                 law_text(group.laws.tokens_of_compute, "C"),
                 fmt::format("{:.2f} %", 100 * group.laws.loss_of_compute.deviation)});
    }
    print(table.text(colours_wanted(stdout)));
  }
  if (arguments.study && !arguments.json) print_study();
  if (!arguments.page.empty()) write_scaling_page(arguments, groups);
  return ExitCode::kDone;
}

}  // namespace

void add_plan_scaling(Command& group) {
  auto arguments = std::make_shared<ScalingArguments>();
  Command scaling = group.add(
      "scaling", "laws of loss against compute, parameters and tokens, of any set of runs",
      {{"runs of several sizes, grouped by what their layers are made of", "plan scaling runs/scaling/*"},
       {"with plots, without the first tenth of each run",
        "plan scaling runs/scaling/* --skip 0.1 --page scaling.html"},
       {"the models and laws that a study of linear models published, for a program",
        "plan scaling --study --json"}});
  scaling.option("RUN", arguments->runs, "run folders");
  scaling.option("--skip", arguments->skip, "leave out this share of each run's tokens at its beginning")
      .at_least(0)
      .at_most(0.9)
      .default_shown();
  scaling
      .option("--window", arguments->window,
              "losses are means over so long a window in the logarithm of compute; 0: as they are")
      .at_least(0)
      .at_most(2)
      .default_shown();
  scaling.option("--points", arguments->points, "values of compute at which the envelope is read off")
      .at_least(2)
      .at_most(100000)
      .default_shown();
  scaling.flag("--study", arguments->study, "show what arXiv 2406.16690 published, too");
  scaling.option("--page", arguments->page, "write a page with plots to this file");
  scaling.json_flag(arguments->json);
  scaling.on_run([arguments] { return run_scaling(*arguments); });
}

}  // namespace longhaul::cli
