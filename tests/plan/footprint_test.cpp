// Numbers: arXiv 2512.04142 and the tables of published calculators, by hand where nothing is published.
#include "plan/footprint/footprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "observe/events/event_log.h"
#include "plan/footprint/calculators.h"
#include "plan/footprint/carbon_hours.h"
#include "plan/footprint/footprint_report.h"
#include "plan/footprint/run_footprint.h"

namespace longhaul::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGpt4 = 6 * 222e9 * 13e12;

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Lifetimes, ThePublishedGrid) {
  const LifetimeGrid grid = lifetime_grid(kGpt4, 312e12);
  const std::vector<std::vector<double>> expected = {
      {8800, 4400, 2934, 1760}, {5029, 2515, 1677, 1006}, {3520, 1760, 1174, 704}, {2934, 1467, 978, 587}};
  EXPECT_EQ(grid.counts, expected);
  EXPECT_NEAR(saved_share(0.2, 1, 0.6, 1), 0.667, 5e-4);
  EXPECT_NEAR(saved_share(0.2, 1, 0.6, 3), 0.889, 5e-4);
  EXPECT_NEAR(saved_share(0.2, 1, 0.6, 5), 0.933, 5e-4);
}

TEST(Lifetimes, AreLinearAndRoundedUp) {
  EXPECT_DOUBLE_EQ(lifetimes({.flops = 2 * kGpt4}), 2 * lifetimes({.flops = kGpt4}));
  EXPECT_EQ(whole_lifetimes({.flops = 0}), 0);
  EXPECT_EQ(whole_lifetimes({.flops = 1}), 1);
  EXPECT_DOUBLE_EQ(lifetimes({.flops = kGpt4, .mfu = 0.2}), 3 * lifetimes({.flops = kGpt4, .mfu = 0.6}));
}

TEST(Calculators, EveryPublishedFigure) {
  const auto rows = calculator_rows();
  EXPECT_EQ(rows.size(), 8u + 20 + 3 + 2 + 1 + 6 + 1 + 2);
  for (const CalculatorRow& row : rows)
    EXPECT_TRUE(row.good()) << row.calculator << ", " << row.name << ": " << row.computed << " " << row.unit;
  // The FLOPs of these were solved from the first of them, and their MFU and lives chosen: nobody shall take
  // them for a confirmation.
  for (const CalculatorRow& row : rows) EXPECT_EQ(row.fitted, row.name.starts_with("GPT-4")) << row.name;
  // LLMCarbon's T5, digit by digit: 6 · 11e9 · 600e9 / (512 · 123e12 · 0.37) s.
  const auto t5 = llm_carbon({11e9, 600e9, 512, 123e12, 0.37, 310, 1.12, 0.545});
  EXPECT_DOUBLE_EQ(t5.flops, 3.96e22);
  EXPECT_NEAR(t5.days, 19.67001, 1e-5);
}

// "Die" and "life cycle" differ tenfold; where both are known both are told, and either can be asked for.
TEST(PlannedFootprint, EmbodiedBySourceAndHost) {
  // one life of an A100
  PlannedWork work{.flops = 312e12 * 3600 * 8760 * 0.5, .mfu = 0.5, .years = 1, .place = default_place()};
  const Footprint both = planned_footprint(work);
  EXPECT_NEAR(both.embodied_die_kg->value, 8.26 * 1.6, 1e-9);
  EXPECT_NEAR(both.embodied_life_cycle_kg->value, 127.6, 1e-9);
  EXPECT_NEAR(both.embodied_host_kg->value, 318, 1e-9);
  work.embodied = EmbodiedSource::kDie;
  EXPECT_FALSE(planned_footprint(work).embodied_life_cycle_kg.has_value());
  work.embodied = embodied_source("life-cycle");
  EXPECT_FALSE(planned_footprint(work).embodied_die_kg.has_value());
  EXPECT_TRUE(planned_footprint(work).embodied_life_cycle_kg.has_value());
  EXPECT_THAT(message_of([] { embodied_source("dye"); }), HasSubstr("both, die or life-cycle"));
}

TEST(FootprintReport, CarbonElsewhereIsTheSpecifiedSet) {
  PlannedWork work{.flops = 1e21, .place = default_place()};
  const Footprint f = planned_footprint(work);
  const auto json = footprint_json(f);
  const std::pair<const char*, double> expected[] = {
      {"hydro", 20}, {"us-east1", 367.8}, {"world", 475}, {"coal", 995}};
  ASSERT_EQ(json["carbon_kg_by_grid"].size(), 4u);
  for (const auto& [name, grams] : expected)
    EXPECT_NEAR(json["carbon_kg_by_grid"][name].get<double>(), f.energy_facility_kwh.value * grams / 1000,
                1e-9)
        << name;
}

TEST(Uncertainty, AddsInQuadrature) {
  const Uncertain product = Uncertain{10, 1} * Uncertain{5, 1};  // 10 % and 20 %
  EXPECT_DOUBLE_EQ(product.value, 50);
  EXPECT_NEAR(product.relative(), std::sqrt(0.01 + 0.04), 1e-12);
  EXPECT_DOUBLE_EQ((Uncertain{1, 3} + Uncertain{2, 4}).sigma, 5);
}

TEST(PlannedFootprint, IsEnergyTimesPlaceByHand) {
  PlannedWork work{
      .flops = 312e12 * 3600 * 1000 * 0.5, .tokens = 1e9, .mfu = 0.5, .years = 1, .place = default_place()};
  work.place.pue.value = {1.2, 0};
  work.place.carbon.value = {400, 40};
  work.place.water_on_site.value = {0.2, 0};
  work.place.water_grid.value = {2, 0};
  const Footprint f = planned_footprint(work);  // 1,000 hours of an A100
  EXPECT_NEAR(f.input.device_hours, 1000, 1e-9);
  EXPECT_NEAR(f.lifetimes, 1000.0 / 8760, 1e-12);
  EXPECT_NEAR(f.a100.lives, f.lifetimes, 1e-12);
  EXPECT_NEAR(f.energy_it_kwh.value, 400 * 0.7 * 1.39, 1e-9);
  EXPECT_NEAR(f.energy_it_kwh.relative(), std::hypot(0.06 / 0.7, 0.14 / 1.39), 1e-12);
  EXPECT_NEAR(f.energy_facility_kwh.value, 1.2 * f.energy_it_kwh.value, 1e-9);
  EXPECT_NEAR(f.carbon_kg.value, 0.4 * f.energy_facility_kwh.value, 1e-9);
  EXPECT_NEAR(f.carbon_kg.relative(), std::hypot(f.energy_it_kwh.relative(), 0.1), 1e-12);
  EXPECT_NEAR(f.water_on_site_l.value, 0.2 * f.energy_it_kwh.value, 1e-9)
      << "of what the machines take, not of what cooling takes too";
  EXPECT_NEAR(f.water_grid_l.value, 2 * f.energy_facility_kwh.value, 1e-9);
  EXPECT_NEAR(f.joules_per_token.value, f.energy_it_kwh.value * 3.6e6 / 1e9, 1e-9);
  EXPECT_NEAR(f.material_kg->value, 1.491 * 1000 / 8760, 1e-9);
  work.overhead = 0.25;
  EXPECT_NEAR(planned_footprint(work).energy_it_kwh.value, 1.25 * f.energy_it_kwh.value, 1e-9);
  EXPECT_NEAR(planned_footprint(work).energy_useful_kwh.value, f.energy_it_kwh.value, 1e-9);
  work.flops = 0;
  EXPECT_EQ(planned_footprint(work).carbon_kg.value, 0);
}

TEST(PlannedFootprint, RefusesWithNameAndUnit) {
  const auto refused = [](PlannedWork work) {
    work.place = default_place();
    return message_of([&] { planned_footprint(work); });
  };
  EXPECT_THAT(refused({.flops = 1, .mfu = 1.5}),
              ::testing::AllOf(HasSubstr("--mfu"), HasSubstr("share of the peak")));
  EXPECT_THAT(refused({.flops = -1}), ::testing::AllOf(HasSubstr("--flops"), HasSubstr("FLOPs")));
  EXPECT_THAT(refused({.flops = 1, .years = 0}), HasSubstr("years from"));
  EXPECT_THAT(refused({.flops = std::nan("")}), HasSubstr("--flops"));
  EXPECT_THAT(message_of([] { accelerator("h10"); }), HasSubstr("h100"));
}

TEST(Grids, MixesAndTheirRefusals) {
  EXPECT_NEAR(grid_mix("coal=0.25,petroleum=0.35,gas=0.26,nuclear=0.14").value.value, 731.59, 1e-9);
  EXPECT_THAT(message_of([] { grid_mix("coal=0.5"); }), HasSubstr("0.5 together"));
  EXPECT_THAT(message_of([] { grid_mix("coal=half,gas=0.5"); }), HasSubstr("coal=half"));
  EXPECT_THAT(message_of([] { grid("us-est1"); }), HasSubstr("--grid us-east1"));
}

TEST(CarbonHours, MeanOverTheHoursOfARun) {
  std::string text = "hour,g_per_kwh\n";
  for (int hour = 0; hour < 24; ++hour)
    text += std::to_string(hour) + "," + std::to_string(100 + 10 * hour) + "\n";
  const CarbonHours day = CarbonHours::read(text, "day.csv");
  EXPECT_DOUBLE_EQ(day.at(25), 110);
  EXPECT_DOUBLE_EQ(day.mean(0, 24), 215);
  EXPECT_DOUBLE_EQ(day.mean(7.25, 48), 215);
  EXPECT_DOUBLE_EQ(day.mean(1.5, 1), 115);               // half of hour 1, half of hour 2
  EXPECT_DOUBLE_EQ(day.mean(23, 2), (330 + 100) / 2.0);  // over midnight
  EXPECT_NEAR(day.mean(0, 25), (24 * 215 + 100) / 25.0, 1e-9);
  EXPECT_EQ(day.best_start(3), 0);
  EXPECT_THAT(message_of([] { CarbonHours::read("hour,g_per_kwh\n1,5\n", "day.csv"); }),
              HasSubstr("no hour 0"));
  EXPECT_THAT(message_of([] { CarbonHours::read("hour,g_per_kwh\n1,-5\n", "day.csv"); }),
              ::testing::AllOf(HasSubstr("day.csv:2, column g_per_kwh"), HasSubstr("g CO2e per kWh")));
  EXPECT_THAT(message_of([] { CarbonHours::read("hour,g\n", "day.csv"); }),
              HasSubstr("the columns hour,g_per_kwh"));
}

TEST(Inventory, AddsPartsAndCarriesTheirErrors) {
  const std::string head =
      "device,element,symbol,atomic_number,part,g_per_unit,class,toxic,source,uncertainty\n";
  const Inventory inventory = read_inventory(head +
                                                 "a100,copper,Cu,29,heatsink,800,heavy,1,made up,0.1\n"
                                                 "a100,copper,Cu,29,pcb,200,heavy,1,made up,0.3\n"
                                                 "a100,silicon,Si,14,package,50,light,0,made up,0\n"
                                                 "h100,copper,Cu,29,heatsink,900,heavy,1,made up,0.1\n",
                                             "i.csv", "a100");
  ASSERT_EQ(inventory.elements.size(), 2u);
  EXPECT_EQ(inventory.elements[0].symbol, "Cu");
  EXPECT_DOUBLE_EQ(inventory.elements[0].grams.value, 1000);
  EXPECT_DOUBLE_EQ(inventory.elements[0].grams.sigma, 100);  // 80 and 60
  EXPECT_DOUBLE_EQ(inventory.grams().value, 1050);
  EXPECT_DOUBLE_EQ(inventory.grams(true).value, 1000);
  EXPECT_THAT(
      message_of([&] { read_inventory(head + "a100,copper,Cu,29,pcb,-1,heavy,1,s,0\n", "i.csv", "a100"); }),
      ::testing::AllOf(HasSubstr("i.csv:2, column g_per_unit"), HasSubstr("grams")));
  EXPECT_THAT(
      message_of([&] { read_inventory(head + "a100,copper,Cu,29,pcb,1,heavy,1,,0\n", "i.csv", "a100"); }),
      HasSubstr("column source"));
  EXPECT_THAT(message_of([&] { read_inventory(head, "i.csv", "a100"); }),
              HasSubstr("nothing of this device"));
}

// A run of 4 steps that stopped after 3, went on from 2, and waited between two processes.
class RunOfEvents {
 public:
  explicit RunOfEvents(bool meters, int64_t ranks = 1, double peak = 1000, double taken = 0)
      : meters_(meters), ranks_(ranks), peak_(peak), taken_(taken) {
    start(1, 0);
    for (int step = 1; step <= 3; ++step) one_step(step, step * 10.0);
    start(2, 1000);
    add(observe::Resume{.step = 2}, 1000);
    one_step(3, 1010);
    one_step(4, 1020);
    add(observe::End{.reason = "finished", .step = 4}, 1030);
    write_text_atomically(folder_.path() / "events.jsonl", text_);
  }
  Footprint footprint(const RunAssumptions& assumptions = {}) const {
    return run_footprint(folder_.path(), assumptions);
  }
  std::string section() const { return footprint_section(folder_.path()); }

 private:
  void add(observe::EventBody body, double at_s) {
    text_ += observe::to_json({.common = {.run = "r",
                                          .generation = generation_,
                                          .wall_time = at_s,
                                          .monotonic_ns = static_cast<int64_t>(at_s * 1e9)},
                               .body = std::move(body)}) +
             "\n";
  }
  void start(int64_t generation, double at_s) {
    generation_ = generation;
    observe::RunStart start{.name = "tiny",
                            .processor = "P",
                            .device = "cpu",
                            .threads = 1,
                            .world_size = ranks_,
                            .flops_per_token = 50.0};
    start.host = "h0";
    start.peak_flops_per_second = peak_;
    start.memory_bytes = 8'000'000'000;
    start.cores = 4;
    if (meters_) start.energy_meters = "RAPL package-0";
    add(start, at_s);
  }
  void one_step(int64_t step, double at_s) {  // 8 of its 10 seconds in the step; 10 tokens a second
    observe::StepReport report{
        .step = step, .tokens_per_second = 10, .milliseconds = 8000, .model_flops_per_second = 500};
    report.processor_milliseconds = 20'000;  // 2 of the 4 cores
    if (meters_) report.energy_joules = 360;
    if (taken_ > 0 && step % 2 == 0) report.taken_by_others = taken_;
    add(report, at_s);
  }
  TemporaryFolder folder_;
  bool meters_;
  int64_t ranks_;
  double peak_, taken_;
  int64_t generation_ = 1;
  std::string text_;
};

TEST(RunFootprint, CountsEveryProcessOnceAndNothingBetweenThem) {
  const Footprint f = RunOfEvents(true).footprint();
  EXPECT_TRUE(f.measured());
  EXPECT_DOUBLE_EQ(f.input.device_hours, (30.0 + 30) / 3600) << "not the 970 s between the processes";
  EXPECT_DOUBLE_EQ(f.input.useful_hours, 4 * 8.0 / 3600) << "the third step counts once";
  EXPECT_DOUBLE_EQ(f.input.tokens, 4 * 80);
  EXPECT_DOUBLE_EQ(f.input.flops, 4 * 4000);
  EXPECT_DOUBLE_EQ(f.input.spent_flops, 5 * 4000);
  EXPECT_DOUBLE_EQ(f.input.mfu, 0.125) << "500 FLOP/s of a peak of 1,000, which one of the four cores has";
  // 360 J in each of five tens of seconds: 36 W, and so for the last ten.
  EXPECT_NEAR(f.energy_it_kwh.value, 36 * 60 / 3.6e6, 1e-12);
  EXPECT_NEAR(f.lifetimes, 60 / (3 * kSecondsPerYear), 1e-15);
}

TEST(RunFootprint, ModelsWhatNoMeterCounted) {
  const Footprint f = RunOfEvents(false).footprint();
  EXPECT_FALSE(f.measured());
  const double watts = 4 * 5 * (0.4 + 0.6 * 0.5) + 8 * 0.375;  // cores, idle and load; memory
  EXPECT_NEAR(f.energy_it_kwh.value, watts * 60 / 3.6e6, 1e-12);
  EXPECT_GT(f.energy_it_kwh.relative(), 0.3) << "the watts of a core are a guess";
  EXPECT_THAT(RunOfEvents(false).section(), HasSubstr("modelled, not measured"));
  EXPECT_THAT(RunOfEvents(true).section(), HasSubstr("measured by the machine"));
}

// 500 FLOP/s with one of four cores: whatever was measured, the machine has 2,000.
TEST(RunFootprint, NoShareIsAboveOne) {
  const Footprint f = RunOfEvents(true, 4, /*peak=*/100).footprint();
  EXPECT_DOUBLE_EQ(f.input.peak, 500);
  EXPECT_DOUBLE_EQ(f.input.mfu, 1);
  EXPECT_DOUBLE_EQ(RunOfEvents(true, 1, 0).footprint().input.mfu, 0) << "an unknown peak stays unknown";
}

TEST(RunFootprint, ABusyMachineIsAnAssumption) {
  for (const bool meters : {true, false}) {
    const RunOfEvents busy(meters, 1, 1000, 0.25);
    const auto& rows = busy.footprint().input.assumptions;
    const auto row = std::ranges::find(rows, "taken_by_others", &Sourced::name);
    ASSERT_NE(row, rows.end());
    EXPECT_DOUBLE_EQ(row->value.value, 0.25);
    EXPECT_THAT(row->source, HasSubstr("other programs took"));
    const auto quiet = RunOfEvents(meters, 1, 1000, 0.04).footprint().input.assumptions;
    EXPECT_EQ(std::ranges::find(quiet, "taken_by_others", &Sourced::name), quiet.end());
  }
}

// Of several machines: as many devices, the first's joules for each of them, or by what each told of its own
// power.
TEST(RunFootprint, SumsOverTheMachines) {
  const RunOfEvents run(true, 4);
  const Footprint one = run.footprint();
  RunAssumptions assumptions;
  assumptions.machines = {{"h0", std::nullopt}, {"h1", std::nullopt}, {"h2", 70.0}};
  const Footprint three = run.footprint(assumptions);
  EXPECT_DOUBLE_EQ(three.input.device_hours, 3 * one.input.device_hours);
  EXPECT_DOUBLE_EQ(three.input.devices, 3);
  EXPECT_NEAR(three.energy_it_kwh.value, 3 * one.energy_it_kwh.value, 1e-12);
  EXPECT_THAT(three.input.energy_kwh.source, HasSubstr("taken to be like"));
  assumptions.machines = {{"h0", 50.0}, {"h1", 40.0}, {"h2", 70.0}};
  const Footprint told = run.footprint(assumptions);
  EXPECT_NEAR(told.energy_it_kwh.value, 160.0 / 50 * one.energy_it_kwh.value, 1e-12);
  EXPECT_THAT(told.input.energy_kwh.source, HasSubstr("each of them told"));
  EXPECT_DOUBLE_EQ(told.lifetimes, 3 * one.lifetimes);
}

// Each of two ranks on the machine is taken to need the processor time of the first: 2 · 20 s in 10 s are all
// of the four cores.
TEST(RunFootprint, CountsTheProcessorTimeOfEveryRankOfTheMachine) {
  const double watts = 4 * 5 * (0.4 + 0.6 * 1.0) + 8 * 0.375;
  EXPECT_NEAR(RunOfEvents(false, 2).footprint().energy_it_kwh.value, watts * 60 / 3.6e6, 1e-12);
}

TEST(RunFootprint, TakesTheHoursOfTheRun) {
  std::string day = "hour,g_per_kwh\n";
  for (int hour = 0; hour < 24; ++hour) day += fmt::format("{},{}\n", hour, hour == 0 ? 100 : 900);
  const Footprint f = RunOfEvents(true).footprint({.place = default_place(),
                                                   .accelerator = "",
                                                   .carbon_hours = day,
                                                   .carbon_hours_name = "day.csv",
                                                   .machines = {}});
  EXPECT_NEAR(f.input.place.carbon.value.value, 100, 1e-9);
}

TEST(RunFootprint, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  write_text_atomically(folder.path() / "events.jsonl", "");
  EXPECT_THAT(message_of([&] { run_footprint(folder.path()); }), HasSubstr("no step"));
  EXPECT_THAT(footprint_section(folder.path()), HasSubstr("It cannot be told"));
}

TEST(FootprintReport, JsonHasUnitsSourcesAndErrors) {
  const auto json = footprint_json(RunOfEvents(true).footprint());
  EXPECT_EQ(json["energy"], "measured");
  for (const char* key : {"energy_it_kwh", "carbon_kg", "water_on_site_l", "lifetimes", "joules_per_token",
                          "embodied_die_kg"}) {
    EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json.contains(std::string(key) + "_sigma")) << key;
    EXPECT_NE(json.value(std::string(key) + "_source", ""), "") << key;
  }
  for (const auto& row : json["assumptions"]) EXPECT_NE(row["source"], "");
}

TEST(FootprintReport, MarkdownHasEveryRowAndWhatWasAssumed) {
  const Footprint f = RunOfEvents(true).footprint();
  const std::string text = footprint_markdown(f);
  EXPECT_TRUE(text.starts_with("# Footprint of ")) << text;
  for (const FootprintRow& row : rows_of(f))
    EXPECT_THAT(text, HasSubstr("| " + row.label + " | ")) << row.key;
  EXPECT_THAT(text, HasSubstr("| name | value | source |\n| --- | ---: | --- |\n"));
  EXPECT_THAT(text, HasSubstr(fmt::format("| {} | ", f.input.place.carbon.name)));
}

TEST(FootprintReport, ComparesByToken) {
  Footprint slow = RunOfEvents(true).footprint(), fast = slow;
  fast.input.mfu *= 2;
  fast.lifetimes /= 2;
  fast.joules_per_token.value *= 0.7;
  const FootprintComparison c{slow, fast};
  EXPECT_DOUBLE_EQ(c.lifetimes_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(c.energy_ratio(), 0.7);
  EXPECT_THAT(comparison_text(c, false), HasSubstr("changes less than the lives do"));
  EXPECT_THAT(comparison_page(c), HasSubstr("<svg"));
}

}  // namespace
}  // namespace longhaul::plan
