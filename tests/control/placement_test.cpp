// The engines' variables, as their documentation writes them.
#include "control/wire/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace longhaul::control {
namespace {

using ::testing::ElementsAre;
using Variables = std::map<std::string, std::string>;
using Change = std::pair<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  };
}
Placement place(const Variables& variables) { return find_place(environment(variables)); }

TEST(Placement, OfNobodyIsAlone) {
  EXPECT_EQ(place({}).size, 1);
  EXPECT_EQ(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).size, 1)
      << "the script of a batch job is no step";
}

TEST(Placement, OfSlurm) {
  const Placement slurm = place({{"SLURM_PROCID", "9"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_NTASKS", "12"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_NODEID", "2"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2(x2)"},
                                 {"SLURM_JOB_ID", "40007"},
                                 {"SLURM_JOB_NODELIST", "n[03-05,20],m1"}});
  EXPECT_EQ(slurm.rank, 9);
  EXPECT_EQ(slurm.size, 12);
  EXPECT_EQ(slurm.local_rank, 1);
  EXPECT_EQ(slurm.local_size, 2);
  EXPECT_EQ(slurm.node_rank, 2);
  EXPECT_EQ(slurm.host, "n03");
  EXPECT_EQ(slurm.port, 20917);
  EXPECT_EQ(slurm.engine, "Slurm");
}

// Steps of one job may run beside each other on a node, as other jobs may.
TEST(Placement, EachStepOfASlurmJobHasAPort) {
  const auto port_of = [](const std::string& job, const std::string& step) {
    return place({{"SLURM_PROCID", "1"},
                  {"SLURM_STEP_ID", step},
                  {"SLURM_NTASKS", "2"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_JOB_ID", job},
                  {"SLURM_JOB_NODELIST", "n1"}})
        .port;
  };
  std::set<uint16_t> ports;
  for (const char* job : {"40007", "40008", "40009"}) {
    for (const char* step : {"0", "1", "2", "17", "99"}) ports.insert(port_of(job, step));
  }
  EXPECT_EQ(ports.size(), 15u);
  for (const uint16_t port : ports) EXPECT_TRUE(port >= 20000 && port < 40000) << port;
  EXPECT_EQ(port_of("40007", "0"), port_of("40007", "0+1")) << "components of one step meet";
  EXPECT_EQ(port_of("9223372036854775807", "9223372036854775807"),
            port_of("9223372036854775807", "9223372036854775807"));
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "host"},
                             {"MASTER_PORT", "99"},
                             {"TORCHELASTIC_RUN_ID", "J"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

TEST(Placement, OfTorchrun) {
  const Placement torchrun = place(kTorchrun);
  EXPECT_EQ(torchrun.rank, 5);
  EXPECT_EQ(torchrun.local_size, 4);
  EXPECT_EQ(torchrun.node_rank, 1);
  EXPECT_EQ(torchrun.port, 99);
  EXPECT_EQ(torchrun.attempt, "2");
  EXPECT_EQ(torchrun.engine, "torchrun");
  EXPECT_FALSE(torchrun.own_store);
  for (const auto& [name, value] : std::vector<Change>{{"RANK", "8"},
                                                       {"RANK", "x"},
                                                       {"MASTER_PORT", "70000"},
                                                       {"WORLD_SIZE", ""},
                                                       {"MASTER_ADDR", ""},
                                                       {"LOCAL_RANK", ""}}) {
    Variables wrong = kTorchrun;
    wrong[name] = value;
    EXPECT_THROW(place(wrong), Error) << name;
  }
  EXPECT_THROW(place({{"RANK", "0"}}), Error);
}

TEST(Placement, OfRayAndJobSetIsToldApart) {
  Variables variables = kTorchrun;
  variables.erase("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(place(variables).engine, "RANK and WORLD_SIZE");
  variables["JOB_COMPLETION_INDEX"] = "5";
  EXPECT_EQ(place(variables).engine, "JobSet");
  variables["RAY_JOB_ID"] = "01000000";
  EXPECT_EQ(place(variables).engine, "Ray");
}

// Training Operator 1.9: RANK is the pod's, and a worker pod has no LOCAL_RANK.
TEST(Placement, OfAPyTorchJob) {
  Variables pod = {{"RANK", "2"},
                   {"WORLD_SIZE", "4"},
                   {"MASTER_ADDR", "longhaul-master-0"},
                   {"MASTER_PORT", "23456"},
                   {"PET_NNODES", "4"},
                   {"PET_NODE_RANK", "2"}};
  EXPECT_EQ(place(pod).engine, "Kubeflow");
  EXPECT_EQ(place(pod).rank, 2);
  EXPECT_EQ(place(pod).node_rank, 2);
  EXPECT_EQ(place(pod).local_rank, 0);
  pod["PET_NPROC_PER_NODE"] = "8";
  EXPECT_THROW(place(pod), Error) << "pods were taken for ranks";
  pod["LONGHAUL_LAUNCHED"] = "-n 8", pod["LOCAL_RANK"] = "1";
  EXPECT_EQ(place(pod).engine, "longhaul launch") << "whose ranks they are, in a pod of several";
}

TEST(Placement, OfTrainerVersionTwo) {
  Variables pod = {{"PET_NNODES", "3"},
                   {"PET_NODE_RANK", "1"},
                   {"PET_NPROC_PER_NODE", "1"},
                   {"PET_MASTER_ADDR", "job-node-0-0.job"},
                   {"PET_MASTER_PORT", "29500"}};
  EXPECT_EQ(place(pod).rank, 1);
  EXPECT_EQ(place(pod).size, 3);
  EXPECT_EQ(place(pod).host, "job-node-0-0.job");
  EXPECT_EQ(place(pod).port, 29500);
  pod["PET_NNODES"] = "1:3";
  EXPECT_THROW(place(pod), Error) << "a number of pods that may change is for torchrun";
}

TEST(SlurmLists, OfNodes) {
  EXPECT_THAT(hosts_in("one"), ElementsAre("one"));
  EXPECT_THAT(hosts_in("n[03-05,20],m1"), ElementsAre("n03", "n04", "n05", "n20", "m1"));
  EXPECT_THAT(hosts_in("rack[7]-a,b"), ElementsAre("rack7-a", "b"));
  EXPECT_THAT(hosts_in("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  for (const char* wrong : {"", "n[1", "n]1[", "n[a-b]", "n[1-]", "n[0-99999999]", "a,,b"})
    EXPECT_THROW(hosts_in(wrong), Error) << wrong;
}

TEST(SlurmLists, OfTasks) {
  for (const auto& [node, tasks] : std::map<int64_t, int64_t>{{0, 8}, {3, 8}, {4, 2}, {5, 1}})
    EXPECT_EQ(tasks_on("8(x4),2,1", node), tasks) << node;
  for (const char* wrong : {"", "x", "8(x", "8(x0)", "8(y2)", "8(x2", "0"})
    EXPECT_THROW(tasks_on(wrong, 0), Error) << wrong;
  EXPECT_THROW(tasks_on("8(x2)", 2), Error);
}

}  // namespace
}  // namespace longhaul::control
