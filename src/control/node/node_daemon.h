// NodeDaemon: `longhaul node`. One a machine (or several that stand for machines): connects to the driver, starts and ends ranks as it says,
// tells it each second what they are at and at once when one has ended. Ranks go on while the driver is away: the daemon looks for it again
// and again, at the address it was given or, with a file for an address, wherever that file points by then. Ranks that stand meanwhile are
// ended when their lease is over (control/node/lease.h). After `patience_s` without a driver, or when the run's folder is gone, it ends its ranks and itself.
//
// Should the daemon die, its ranks are killed by the kernel: nothing of an old generation goes on unseen. Source: docs/sources/reliability.md §5.1.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/net/event_loop.h"
#include "base/process/children.h"
#include "base/threads/worker.h"
#include "control/node/machine_watch.h"
#include "control/node/node_memory.h"
#include "control/node/node_sampler.h"
#include "control/node/rank_host.h"
#include "control/wire/channel.h"
#include "control/wire/messages.h"

namespace longhaul::control {

struct NodeOptions {
  std::string driver;            // HOST:PORT, or a file that holds it (RUN/control/address)
  std::filesystem::path secret;  // file
  std::string name;              // of the node in the run; empty: Slurm's for it, else the host's
  int64_t slots = 1;             // ranks that it can hold
  bool spare = false;
  bool shares_machine = false;  // with other nodes of the run: samples are of its own ranks
  double patience_s = 600;
  std::string program;         // this one's file
  MachineRoot machine_root{};  // what its health is read from; another than the default is read where nodes share a machine too
};

class NodeDaemon {
 public:
  explicit NodeDaemon(NodeOptions options);
  ~NodeDaemon();
  ExitCode run();

 private:
  void connect();
  void on_open();
  void on_closed(const Channel::Closing& closing);
  void on_message(const std::string& text);
  void take(const Welcome& message);
  void take(const StartRanks& message);
  void take(const StopRanks& message);
  void take(const RunChecks& message);
  void take(const GatherEvidence& message);
  void send_evidence();
  void take(const Release& message);
  void take(const StillHere&) {}  // that it was heard is all
  void take(const RenewKeys& message);
  void make_host(const std::string& run);
  void send(const NodeMessage& message);
  int64_t port_for_ranks();
  void beat();
  void look_for_news();
  void on_request_to_stop(int signal);
  void leave(int64_t committed_step);  // when nothing is wanted of it any more
  void end(ExitCode code, const std::string& why);
  void finish_checks(int64_t id, const std::string& suite, const std::filesystem::path& output, int status);
  std::vector<RankBeat> running() const;
  std::vector<RankExited> ended() const;

  NodeOptions options_;
  EventLoop loop_;
  Children children_;
  Keys keys_;
  std::string run_, own_address_;
  std::filesystem::path run_folder_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<RankHost> host_;        // when the run is known
  std::unique_ptr<NodeSampler> sampler_;  // when its folder is
  std::unique_ptr<MachineWatch> watch_;
  std::shared_ptr<Channel> channel_;
  std::optional<StopRanks> ending_;
  double beat_every_s_ = 1, lease_s_ = 60;
  uint64_t beat_timer_ = 0;
  struct Asked;
  std::shared_ptr<Asked> asked_;  // evidence that is put in words; null: none
  int64_t alone_since_ns_ = 0;    // without a driver
  int64_t port_ = 0;              // that was free when it was looked for last
  std::string last_reason_;       // why the last connection was closed: said once
  ExitCode code_ = ExitCode::kDone;
  Worker words_{"evidence"};  // beats and leases do not wait for it
};

}  // namespace longhaul::control
