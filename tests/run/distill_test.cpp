// ctest: label=full timeout=240
// train.distill: runs that learn beside a frozen model, which resume with the same bits, and what is refused.
#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "run/words.h"
#include "support/refused.h"

namespace longhaul::run {
namespace {

using longhaul::testing::refused;
using ::testing::HasSubstr;

class Distill : public RunFixture {
 protected:
  Distill() {
    write_text([](int i) { return 10 + i; });
  }
  RunRequest request(const std::string& name, const Words& more) const {
    return {.recipe = recipe::load_defaults(tiny_run(folder_.path()) + more),
            .run_folder = folder_ / name,
            .quiet = true};
  }
  double held_out(const std::string& name) const {
    return events<observe::Evaluation>(name).back().loss.value();
  }
  Words from(const std::string& name, const Words& more = {}) const {
    return Words{"train.distill.from=" + (folder_ / name).string(), "train.distill.weight=0.75",
                 "train.distill.temperature=2"} +
           more;
  }
};

const Words kLarger = {"model.hidden=40",  "model.mixers=softmax", "model.experts=0", "model.intermediate=64",
                       "train.dtype=fp32", "train.steps=40",       "optim.lr=0.02"};

TEST_F(Distill, AModelOfAnotherShapeTeaches) {
  run_training(request("teacher", kLarger));
  const Words short_run = {"train.steps=6", "train.dtype=fp32"};
  run_training(request("alone", short_run));
  run_training(request("taught", from("teacher", short_run)));
  EXPECT_NE(losses("taught"), losses("alone"));
  EXPECT_EQ(losses("taught").size(), 6);
  EXPECT_TRUE(std::isfinite(held_out("taught")));
  EXPECT_LT(losses("taught").back(), losses("taught").front());
}

TEST_F(Distill, ARunThatGoesOnHasTheSameBits) {
  run_training(request("teacher", kLarger));
  const Words words = from("teacher", {"train.steps=6", "train.checkpoint_every=3"});
  run_training(request("whole", words));
  run_training(request("parts", words + Words{"train.steps=3"}));
  run_training(request("parts", words));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(held_out("parts"), held_out("whole"));
}

// Each of two data ranks has the whole teacher.
TEST_F(Distill, RanksLearnWhatOneProcessLearns) {
  run_training(request("teacher", kLarger));
  const Words words =
      from("teacher", {"train.steps=3", "train.dtype=fp64", "train.batch=4", "train.micro_batch=2"});
  run_training(request("one", words));
  run_training(request("two", words + Words{"parallel.ranks=2", "parallel.zero=2"}));
  ASSERT_EQ(losses("one").size(), 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses("two")[i], losses("one")[i], 1e-12);
}

TEST_F(Distill, RefusesWhatCannotTeach) {
  run_training(request("other", kLarger + Words{"model.vocabulary=300", "train.steps=1"}));
  EXPECT_THAT(refused([&] { run_training(request("a", from("other", {"train.steps=1"}))); }),
              HasSubstr("another vocabulary"));
  EXPECT_THAT(refused([&] { run_training(request("b", from("nowhere", {"train.steps=1"}))); }),
              HasSubstr("nowhere"));
  for (const char* wrong :
       {"parallel.tp=2", "parallel.pp=2", "parallel.cp=2", "train.task=recall", "model.predict_ahead=1"}) {
    EXPECT_THAT(refused([&] { request("c", from("other", {wrong})); }), HasSubstr("train.distill")) << wrong;
  }
}

}  // namespace
}  // namespace longhaul::run
