// Adapters against fakes of the engines' commands: what is typed, and what is made of the answers. Real ones:
// tests/engines.
#include "control/engines/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "control/engines/engine_desk.h"
#include "control/node/last_words.h"

namespace longhaul::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment variables_of(const Variables& variables) {
  return [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// Answers by the beginning of what is typed; other commands fail. Keeps what was typed.
struct FakeEngine {
  std::map<std::string, ProcessResult> answers;
  std::vector<std::string> typed;
  EngineCommand command() {
    return [this](const std::vector<std::string>& words) {
      std::string line;
      for (const auto& word : words) line += (line.empty() ? "" : " ") + word;
      typed.push_back(line);
      for (const auto& [beginning, answer] : answers) {
        if (line.starts_with(beginning)) return answer;
      }
      return ProcessResult{.status = 1, .errors = "fake: no such command: " + line};
    };
  }
};

const Variables kJob = {{"SLURM_JOB_ID", "77"},
                        {"SLURM_JOB_NODELIST", "n[1-4]"},
                        {"SLURM_RESTART_COUNT", "2"},
                        {"SLURM_JOB_END_TIME", "1900000000"}};

TEST(SlurmEngine, KnowsItsJob) {
  FakeEngine fake;
  const auto engine = find_engine(variables_of(kJob), fake.command());
  EXPECT_EQ(engine->name(), "Slurm");
  EXPECT_EQ(engine->discover().run_id, "77");
  EXPECT_EQ(engine->discover().restarts, 2);
  EXPECT_THAT(engine->discover().hosts, ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_EQ(engine->deadline(), 1.9e9);
  EXPECT_TRUE(engine->restarts_in_place());
  EXPECT_TRUE(fake.typed.empty()) << "all of it stands in the environment";
}

TEST(SlurmEngine, TakesANodeOfTheJobThatAnswers) {
  FakeEngine fake{.answers = {{"sinfo", {.output = "n3 alloc\nn1 mix\nn2 down*\nn4 idle*\n"}}}};
  const auto engine = find_engine(variables_of(kJob), fake.command());
  EXPECT_EQ(engine->request_node({}), "n1");
  EXPECT_EQ(engine->request_node({"n1"}), "n3");
  EXPECT_EQ(engine->request_node({"n1", "n3"}), std::nullopt) << "n2 is down and n4 does not answer";
  EXPECT_THAT(fake.typed.front(), HasSubstr("--nodes=n[1-4]"));
}

TEST(SlurmEngine, DrainsANodeWhereItMay) {
  FakeEngine operators{.answers = {{"scontrol update NodeName=n2 State=DRAIN", {}}}};
  EXPECT_THAT(find_engine(variables_of(kJob), operators.command())->release_node("n2", "Xid 79"),
              HasSubstr("is drained"));
  EXPECT_THAT(operators.typed,
              ElementsAre("scontrol update NodeName=n2 State=DRAIN Reason=longhaul job 77: Xid 79"));
  FakeEngine users{.answers = {{"scontrol", {.status = 1, .errors = "Invalid user id"}}}};
  EXPECT_THAT(find_engine(variables_of(kJob), users.command())->release_node("n2", "Xid 79"),
              HasSubstr("is not used"));
}

TEST(SlurmEngine, QueuesTheJobAgain) {
  FakeEngine fake{.answers = {{"scontrol requeue 77", {}}}};
  EXPECT_THAT(find_engine(variables_of(kJob), fake.command())->requeue(), HasSubstr("in the queue"));
  FakeEngine refusing;
  EXPECT_THROW(find_engine(variables_of(kJob), refusing.command())->requeue(), Error);
}

TEST(SlurmEngine, StartsAStepOnTheNode) {
  FakeEngine fake;
  EXPECT_THAT(find_engine(variables_of(kJob), fake.command())->words_to_start_on("n3", {"longhaul", "node"}),
              ElementsAre("srun", "--overlap", "--no-kill", "--nodes=1", "--ntasks=1", "--nodelist=n3",
                          "longhaul", "node"));
  EXPECT_TRUE(find_engine(variables_of({}))->words_to_start_on("n3", {"longhaul", "node"}).empty());
}

std::vector<EngineAnswer> wait_for_answers(EngineDesk& desk, size_t count) {
  std::vector<EngineAnswer> all;
  for (const Stopwatch watch; all.size() < count && watch.seconds() < 20;) {
    for (EngineAnswer& answer : desk.answers()) all.push_back(std::move(answer));
  }
  return all;
}

TEST(EngineDesk, AnswersInOrderAndNeverKeepsItsCallerWaiting) {
  std::atomic<bool> go{false};
  EngineDesk desk(
      find_engine(variables_of(kJob), [&](const std::vector<std::string>& words) -> ProcessResult {
        for (const Stopwatch watch; !go && watch.seconds() < 20;) {
        }
        if (words[0] == "sinfo") return {.output = "n1 alloc\nn2 mix\n"};
        return {.status = 1, .errors = "denied"};
      }));
  desk.request_node({"n1"}), desk.release_node("n1", "slow"), desk.requeue();
  EXPECT_TRUE(desk.answers().empty()) << "the engine has not answered, and its caller did not wait";
  go = true;
  const auto answers = wait_for_answers(desk, 3);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].host, "n2");
  EXPECT_EQ(answers[1].to, EngineAnswer::To::kRelease);
  EXPECT_TRUE(answers[1].good);
  EXPECT_THAT(answers[1].text, HasSubstr("is not used"));
  EXPECT_FALSE(answers[2].good) << "it said no, which is an answer";
  EXPECT_THAT(answers[2].text, HasSubstr("denied"));
  EXPECT_TRUE(desk.answers().empty());
}

const Variables kPod = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                        {"JOBSET_NAME", "longhaul"},
                        {"JOBSET_RESTART_ATTEMPT", "3"},
                        {"POD_NAMESPACE", "train"},
                        {"RANK", "1"},
                        {"WORLD_SIZE", "4"},
                        {"LOCAL_RANK", "0"},
                        {"MASTER_ADDR", "longhaul-ranks-0-0.longhaul"},
                        {"MASTER_PORT", "29500"},
                        {"JOB_COMPLETION_INDEX", "1"}};

TEST(KubernetesEngine, TaintsTheNodeAndDeletesThePod) {
  FakeEngine fake{.answers = {{"kubectl get pod longhaul-ranks-0-1", {.output = "gpu-node-7"}},
                              {"kubectl taint", {}},
                              {"kubectl annotate", {}},
                              {"kubectl delete pod", {}}}};
  const auto engine = find_engine(variables_of(kPod), fake.command());
  EXPECT_EQ(engine->name(), "JobSet");
  EXPECT_EQ(engine->discover().run_id, "longhaul");
  EXPECT_EQ(engine->discover().restarts, 3);
  EXPECT_EQ(engine->request_node({}), std::nullopt) << "the controller brings pods by itself";
  EXPECT_THAT(engine->release_node("longhaul-ranks-0-1", "miscalculates"), HasSubstr("gpu-node-7"));
  EXPECT_THAT(
      fake.typed,
      ElementsAre("kubectl get pod longhaul-ranks-0-1 --output=jsonpath={.spec.nodeName} --namespace=train",
                  "kubectl taint nodes gpu-node-7 longhaul/blocked=true:NoSchedule --overwrite",
                  "kubectl annotate nodes gpu-node-7 longhaul/blocked=miscalculates --overwrite",
                  "kubectl delete pod longhaul-ranks-0-1 --wait=false --namespace=train"));
}

TEST(KubernetesEngine, RefusesWhatIsNoPod) {
  FakeEngine fake;
  for (const char* wrong : {"", "--all", "a b", "../x", "A"})
    EXPECT_THROW(find_engine(variables_of(kPod), fake.command())->release_node(wrong, ""), Error) << wrong;
  EXPECT_TRUE(fake.typed.empty());
  fake.answers = {{"kubectl get pod", {.output = ""}}};
  EXPECT_THROW(find_engine(variables_of(kPod), fake.command())->release_node("a-pod", ""), Error)
      << "it is on no node";
}

TEST(Engines, AreTold) {
  EXPECT_EQ(find_engine(variables_of({}))->name(), "alone");
  Variables pod = {{"RANK", "1"},        {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"},
                   {"MASTER_PORT", "1"}, {"PET_NNODES", "2"}, {"KUBERNETES_SERVICE_HOST", "h"}};
  EXPECT_EQ(find_engine(variables_of(pod))->name(), "Kubeflow");
  pod["LOCAL_RANK"] = "0", pod["TORCHELASTIC_RUN_ID"] = "J", pod["TORCHELASTIC_RESTART_COUNT"] = "1";
  const auto torchrun = find_engine(variables_of(pod));
  EXPECT_EQ(torchrun->name(), "torchrun");
  EXPECT_EQ(torchrun->discover().run_id, "J");
  EXPECT_EQ(torchrun->discover().restarts, 1);
  EXPECT_FALSE(torchrun->restarts_in_place());
  EXPECT_THAT(torchrun->release_node("n", "r"), HasSubstr("left alone"));
  EXPECT_EQ(find_engine(variables_of({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}}))->name(), "Slurm")
      << "outside a step: the driver's place";
}

TEST(Engines, HaveADeadlineWhereSomebodySaysOne) {
  EXPECT_EQ(find_engine(variables_of({}))->deadline(), std::nullopt);
  EXPECT_EQ(find_engine(variables_of({{"LONGHAUL_DEADLINE", "1800000000.5"}}))->deadline(), 1800000000.5);
  Variables both = kJob;
  both["LONGHAUL_DEADLINE"] = "5";
  EXPECT_EQ(find_engine(variables_of(both))->deadline(), 5) << "ours comes first";
  for (const char* wrong : {"soon", "5s", "-1", "inf", "nan"})
    EXPECT_THROW(find_engine(variables_of({{"LONGHAUL_DEADLINE", wrong}}))->deadline(), Error) << wrong;
}

TEST(LastWords, AreWhatTorchrunReads) {
  const TemporaryFolder folder;
  const auto file = (folder / "error.json").string();
  const auto environment = variables_of({{"TORCHELASTIC_ERROR_FILE", file}});
  tell_engine(ExitCode::kNumeric, "the loss is \"not\" finite\nat step 3", environment, folder / "none");
  const auto json = nlohmann::json::parse(read_text(file));
  EXPECT_EQ(json["message"]["message"], "the loss is \"not\" finite\nat step 3");
  EXPECT_EQ(json["message"]["errorCode"], 67);
  EXPECT_GT(std::stoll(json["message"]["extraInfo"]["timestamp"].get<std::string>()), 1700000000);
  tell_engine(ExitCode::kInternal, "later", environment, folder / "none");
  EXPECT_EQ(nlohmann::json::parse(read_text(file)), json) << "the first failure counts";
}

TEST(LastWords, AreAPodsTerminationMessage) {
  const TemporaryFolder folder;
  const auto log = folder / "termination-log";
  tell_engine(ExitCode::kData, "text", variables_of({{"KUBERNETES_SERVICE_HOST", "h"}}), log);
  EXPECT_FALSE(std::filesystem::exists(log)) << "made where Kubernetes made none";
  write_text_atomically(log, "");
  tell_engine(ExitCode::kData, std::string(9000, 'x'), variables_of({}), log);
  EXPECT_EQ(read_text(log), "") << "not in a pod";
  tell_engine(ExitCode::kData, std::string(9000, 'x'), variables_of({{"KUBERNETES_SERVICE_HOST", "h"}}), log);
  EXPECT_THAT(read_text(log), HasSubstr("exit code 65 (data): xxx"));
  EXPECT_LE(read_text(log).size(), 4096u);
  // does not throw
  tell_engine(ExitCode::kData, "text", variables_of({{"TORCHELASTIC_ERROR_FILE", "/proc/nowhere/x"}}), log);
}

}  // namespace
}  // namespace longhaul::control
