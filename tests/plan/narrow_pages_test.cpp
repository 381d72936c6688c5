// Pages of plans and footprints on a phone, 390 pixels wide: nothing is wider than the screen but for charts
// that scroll, and the first column of a table holds words, not a letter or two a line.
// ctest: label=full timeout=120
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/temporary_folder.h"
#include "plan/footprint/footprint_report.h"
#include "plan/search/plan_page.h"
#include "plan/validation_report.h"
#include "recipe/architecture/presets.h"
#include "support/browser.h"

namespace longhaul::plan {
namespace {

constexpr int kPhone = 390;

// The page lies in a frame of a phone's width, and a script around it measures it.
nlohmann::json measured(const std::string& page) {
  const TemporaryFolder folder;
  const longhaul::testing::Browser browser;
  std::string text = nlohmann::json(page).dump();
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.insert(at + 1, "\\");
  std::ofstream(folder / "frame.html")
      << "<!doctype html><meta charset=utf-8><body><script>"
      << "const frame=document.createElement('iframe');frame.width=" << kPhone
      << ";frame.height=2000;frame.style.border=0;frame.srcdoc=" << text << R"(;
frame.onload=()=>{
  const page=frame.contentDocument;
  const scrolls=node=>{for(;node;node=node.parentElement)
    if(['auto','scroll'].includes(frame.contentWindow.getComputedStyle(node).overflowX))return true;return false};
  const boxes=(what,keep)=>[...page.querySelectorAll(what)].filter(keep).map(node=>node.getBoundingClientRect());
  const right=Math.max(...boxes('svg,table,pre,h1,h2,p',node=>!scrolls(node)).map(box=>box.right));
  const first=boxes('td:first-child',node=>node.textContent.length>4).map(box=>box.width).filter(width=>width>0);
  const told={page:page.documentElement.scrollWidth,right:right,cells:first.length,narrowest:Math.min(...first)};
  document.body.innerHTML='<output>'+JSON.stringify(told)+'</output>'};
document.body.append(frame);</script>)";
  const ProcessResult dom =
      browser.open("file://" + (folder / "frame.html").string(), 800, 2100, 3000, "--dump-dom");
  const size_t begin = dom.output.find("<output>"), end = dom.output.find("</output>");
  if (begin == std::string::npos) return dom.output.substr(0, 400) + dom.errors.substr(0, 400);
  return nlohmann::json::parse(dom.output.substr(begin + 8, end - begin - 8));
}

void expect_fits(const std::string& page) {
  if (!longhaul::testing::Browser::installed()) GTEST_SKIP() << longhaul::testing::Browser::kMissing;
  const nlohmann::json told = measured(page);
  ASSERT_TRUE(told.is_object()) << told;
  EXPECT_LE(told["page"], kPhone) << told;
  EXPECT_LE(told["right"], kPhone) << told;
  ASSERT_GT(told["cells"], 3) << told;
  EXPECT_GE(told["narrowest"], 60) << told;
}

TEST(NarrowPages, APlanFits) {
  PlanReport report{.recipe = "gpt2-124m", .cluster = load_cluster("a100", 8), .work = {}};
  report.work = work_of(recipe::preset_model("gpt2-124m"), 1024);
  report.batch = 64;
  report.tokens = 1e9;
  report.found = search(report.work, report.cluster, {.batch = report.batch});
  expect_fits(plan_page(report));
}

TEST(NarrowPages, AFootprintFits) {
  expect_fits(footprint_page(planned_footprint({.flops = 1.7316e25, .tokens = 1e12, .gpus = 2515})));
}

TEST(NarrowPages, PublishedStepsFit) { expect_fits(validation_page()); }

// The measure sees what is too wide: a table that cannot be narrower, and a first column of a letter a line.
TEST(NarrowPages, WhatIsTooWideIsSeen) {
  if (!longhaul::testing::Browser::installed()) GTEST_SKIP() << longhaul::testing::Browser::kMissing;
  const nlohmann::json wide = measured(
      "<!doctype html><table style='table-layout:fixed;width:620px'><col width=20>"
      "<tr><td style='overflow-wrap:anywhere'>hours of devices<td>x</table>");
  ASSERT_TRUE(wide.is_object()) << wide;
  EXPECT_GT(wide["page"], kPhone);
  EXPECT_GT(wide["right"], kPhone);
  EXPECT_LT(wide["narrowest"], 60);
}

}  // namespace
}  // namespace longhaul::plan
