// DriverService: the driver of a run as a process. DriverCore decides; DriverService carries out: it has the
// connections of nodes and of people, the journal and the other files in RUN/control, the daemons of this
// machine, the signals and the clock. When it is started again for the same run, it takes up the daemons
// whose ranks went on: they find it through RUN/control/address.
//
//   DriverService service({.plan = …, .policy = …, .command = …, .run_folder = "runs/a", .local_nodes = 1,
//       .slots = 4});
//   const DriverResult result = service.run();
//
// A run has one driver at a time (RUN/control/driver.lock). Source: docs/sources/reliability.md §5.1, §9.2;
// docs/design/control.md.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/files/file.h"
#include "base/net/event_loop.h"
#include "base/net/socket.h"
#include "base/process/children.h"
#include "control/driver/driver_core.h"
#include "control/driver/minder_watch.h"
#include "control/driver/run_display.h"
#include "control/driver/slow_ranks.h"
#include "control/engines/engine_desk.h"
#include "control/host_history.h"
#include "control/journal_file.h"
#include "control/ledger.h"
#include "control/waiting_files.h"
#include "control/wire/channel.h"
#include "observe/events/event_log.h"

namespace longhaul::control {

struct DriverOptions {
  RunPlan plan;
  Policy policy;
  RunCommand command;
  std::filesystem::path run_folder;
  // Daemons that the driver starts on this machine, spares included; 0: nodes connect by themselves.
  int64_t local_nodes = 1;
  int64_t slots = 1;    // ranks of each node
  std::string listen;   // HOST:PORT; empty: any port of 127.0.0.1
  std::string program;  // the path of this program
  // Makes the engine that is asked for machines; empty: there is none.
  std::function<std::unique_ptr<Engine>()> make_engine;
  // The file of control/host_history.h; empty: all hosts are treated alike.
  std::filesystem::path host_history;
  int64_t log_every = 1;  // shows one step of so many, where rank 0 does not print on this terminal
  // Replace the nodes of ranks that are slower than their peers, at the next checkpoint; false: only report
  // them.
  bool replace_slow = false;
  // Minder compares the samples of the nodes with these options; nothing: they are not compared
  std::optional<MinderOptions> minder;
};

struct DriverResult {
  ExitCode code = ExitCode::kDone;
  std::string text;
  int64_t rank = -1;     // the rank that caused the end
  bool stopped = false;  // on request of a person
  // the last steps were printed here from the run's events, because rank 0 prints elsewhere
  bool showed = false;
};

// The hosts of a history file that are to be used last, the worst at the end.
std::vector<std::string> lemons_of(const std::filesystem::path& history, double now_s);

// The name of a run in its processes' handshakes and in /dev/shm: the folder's name and a number of the run's
// own.
std::string job_name(const std::filesystem::path& run_folder, const std::string& secret);
// The stage of the pipeline of a rank, where the run goes on with so many ranks.
int64_t stage_of(const RunPlan& plan, int64_t rank, int64_t ranks);
inline std::filesystem::path control_folder(const std::filesystem::path& run) { return run / "control"; }

class DriverService {
 public:
  explicit DriverService(DriverOptions options);
  ~DriverService();
  DriverResult run();

 private:
  struct Connection {
    std::shared_ptr<Channel> channel;
    std::string node;     // set once it has said its name and was accepted
    std::string address;  // without the port
    bool client = false;
  };
  // Connections (driver_connections.cpp).
  void accept();
  void make_room_for_a_stranger();
  void on_message(uint64_t number, const std::string& text);
  void on_node_message(uint64_t number, NodeMessage message);
  void on_hello(uint64_t number, const NodeHello& hello);
  void on_client_message(Connection& connection, const ClientMessage& message);
  void on_closed(uint64_t number, const Channel::Closing& closing);
  Connection* connection_of(const std::string& node);
  void send(const std::string& node, const DriverMessage& message);
  void close_connection(uint64_t number);  // without telling the core
  void drop(uint64_t number);
  uint64_t shown_generation() const;
  void renew_keys();

  // Daemons of this machine (driver_connections.cpp).
  bool is_local(const std::string& node) const { return local_.contains(node); }
  void start_local(const std::string& node);
  void look_for_dead(const std::string& node);

  // The engine, and what hosts have done (driver_engine.cpp).
  void begin_engine();
  void on_answer(const EngineAnswer& answer);
  void start_on(const std::string& host);
  void ask_again();
  bool requeues();
  void note_host(const std::string& host, HostEvent event);
  void note_incident(const observe::IncidentReport& incident);
  void note_end();

  // Samples of nodes (driver_minder.cpp).
  void begin_minder();
  std::vector<MinderPeer> minder_peers() const;
  void on_minder(const MinderAlert& alert);

  void feed(const Input& input);
  void after_feeding(int64_t generation_before);
  void apply(const Commands& commands);
  void carry_out(const Command& command);
  // An error in `handler` is logged, and the handler runs again the next time.
  void every(double seconds, const std::string& what, std::function<void()> handler);
  void do_it(const ToNode& command);
  void do_it(const Refuse& command);
  void do_it(const CloseConnection& command);
  void do_it(const WriteJournal& command);
  void do_it(const WriteSkip& command);
  void do_it(const WriteBlocked& command);
  void do_it(const Emit& command);
  void do_it(const StartNode& command);
  void do_it(const RequestNode& command);
  void do_it(const ReleaseNode& command);
  void do_it(const AnalyseHang& command);
  void do_it(const Reply& command);
  void do_it(const Say& command);
  void do_it(const Finish& command);

  double now_s() const;
  void arm();
  void write_status();
  nlohmann::ordered_json status_json() const;
  void look_for_checkpoints();
  void look_for_slow();
  bool rank_0_speaks_here() const;
  void on_stop_signal(int signal);
  void leave();
  void flush_journal();
  void write_what_waits();
  void forget_held_starts(const std::string& node, int64_t generation);

  DriverOptions options_;
  SlowRanks slow_;
  RunDisplay display_;
  EventLoop loop_;
  Children children_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<JournalFile> journal_;
  std::unique_ptr<DriverCore> core_;
  std::unique_ptr<observe::EventWriter> events_;
  Keys keys_;
  Socket listening_;
  std::map<uint64_t, Connection> connections_;
  std::shared_ptr<Channel> asking_;              // the person whose request is being decided
  uint64_t last_connection_ = 0, greeting_ = 0;  // greeting: the connection whose hello is being decided
  // this process has begun a generation, or found the ranks of the generation in its journal
  bool settled_ = false;
  WaitingFiles files_;                           // files that the core has ordered to be written
  std::vector<ToNode> held_;                     // StartRanks messages that wait until skip.json is written
  std::map<std::string, std::string> problems_;  // the last message printed for each action that is retried
  // process ids of the daemons of this machine, by name; 0: not started by this process
  std::map<std::string, pid_t> local_;
  // process ids of nodes on this machine, as they report them
  std::map<std::string, int64_t> pids_;
  std::map<int64_t, std::map<int64_t, Evidence>> evidence_;  // by generation and rank
  double wall_offset_s_ = 0, started_wall_s_ = 0;
  uint64_t tick_timer_ = 0;
  std::string last_status_key_, journal_problem_, status_problem_;
  int64_t committed_ = -1;
  double checkpoints_changed_s_ = 0;
  std::optional<DriverResult> result_;
  int stops_ = 0, last_signal_ = 0, wanted_ = 0;  // wanted: requests that the engine has not answered
  std::set<std::string> brought_;                 // hosts on which daemons were started through the engine
  std::unique_ptr<EngineDesk> desk_;
  std::unique_ptr<MinderWatch> minder_;
};

}  // namespace longhaul::control
