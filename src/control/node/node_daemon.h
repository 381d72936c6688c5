// NodeDaemon: `longhaul node`. One daemon runs on each machine (or several, each of which stands for a
// machine). It connects to the driver, starts and ends ranks on the driver's orders, reports every second
// what they do, and reports immediately when one has ended. Ranks go on while the driver is away: the daemon
// tries to reconnect again and again, at the given address or, if a file was given, at the address that the
// file holds by then. Ranks that make no progress meanwhile are ended when their lease is over
// (control/node/lease.h). After `patience_s` without a driver, or when the run's folder is gone, the daemon
// ends its ranks and itself.
//
// If the daemon dies, the kernel kills its ranks, so that no rank of an old generation runs on unseen.
// Source: docs/sources/reliability.md §5.1.
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
  std::filesystem::path secret;  // the file of the job's secret, or of this node's own key
  // The node's name in the run; empty: the one of its key, else Slurm's name of it, else the host's name.
  std::string name;
  int64_t slots = 1;  // number of ranks that it can hold
  bool spare = false;
  bool shares_machine = false;  // with other nodes of the run: samples then cover its own ranks only
  double patience_s = 600;
  std::string program;  // the path of this program
  // Where its health is read from; if it is not the default, it is read even where nodes share a machine.
  MachineRoot machine_root{};
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
  void take(const StillHere&) {}  // the message itself is the sign of life
  void take(const RenewKeys& message);
  void make_host(const std::string& run);
  void send(const NodeMessage& message);
  int64_t port_for_ranks();
  void beat();
  void look_for_news();
  void on_request_to_stop(int signal);
  void leave(int64_t committed_step);  // after the node has nothing left to do
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
  std::unique_ptr<RankHost> host_;        // set when the run is known
  std::unique_ptr<NodeSampler> sampler_;  // set when the run's folder is known
  std::unique_ptr<MachineWatch> watch_;
  std::shared_ptr<Channel> channel_;
  std::optional<StopRanks> ending_;
  double beat_every_s_ = 1, lease_s_ = 60;
  uint64_t beat_timer_ = 0;
  struct Asked;
  std::shared_ptr<Asked> asked_;  // evidence that is being put into words; null: none
  int64_t alone_since_ns_ = 0;    // since when it has had no driver
  int64_t port_ = 0;              // the port that was free when it was last looked for
  std::string last_reason_;       // why the last connection was closed, so that each reason is printed once
  ExitCode code_ = ExitCode::kDone;
  Worker words_{"evidence"};  // its own thread, so that heartbeats and leases do not wait
};

}  // namespace longhaul::control
