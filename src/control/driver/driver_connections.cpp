// DriverService: its connections, and the daemons of this machine.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/text.h"
#include "control/driver/driver_service.h"
#include "control/driver/status_answer.h"
#include "control/node/node_daemon.h"

namespace longhaul::control {
namespace {

constexpr size_t kMostConnections = 4096;
constexpr size_t kMostStrangers = 64;  // connections whose handshake is not finished
constexpr double kFullPause_s = 1;     // during which no connections are accepted, when no file can be opened
constexpr double kDeath_s = 0.1;       // after a connection is lost, until its daemon's lock is checked

}  // namespace

void DriverService::accept() {
  bool out_of_descriptors = false;
  while (auto socket = listening_.accept(&out_of_descriptors)) {
    if (connections_.size() >= kMostConnections) continue;  // closed at once
    make_room_for_a_stranger();
    const uint64_t number = ++last_connection_;
    Handshake handshake(keys_, own_identity("driver", "", options_.plan.run, shown_generation()), true);
    const std::string address = socket->peer();
    connections_[number].address = address.substr(0, address.rfind(':'));
    connections_[number].channel = Channel::make(
        loop_, std::move(*socket), std::move(handshake),
        {.opened = [this,
                    number](const Identity& peer) { connections_[number].client = peer.role == "operator"; },
         .message = [this, number](std::string_view message) { on_message(number, std::string(message)); },
         .closed = [this, number](const Channel::Closing& closing) { on_closed(number, closing); }});
  }
  if (!out_of_descriptors) return;
  log_error("driver: no file can be opened any more, nor a connection be taken: raise the limit (ulimit -n)");
  loop_.forget(listening_.descriptor());  // it would be ready again and again
  loop_.after(kFullPause_s,
              [this] { loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) { accept(); }); });
}

// Connections that send nothing must not keep out holders of the secret: of the address with the most
// unproven connections, the one that has waited longest is closed.
void DriverService::make_room_for_a_stranger() {
  std::map<std::string, std::vector<uint64_t>> strangers;
  size_t all = 0;
  for (const auto& [number, connection] : connections_) {
    if (connection.channel->is_open()) continue;
    strangers[connection.address].push_back(number);
    ++all;
  }
  if (all < kMostStrangers) return;
  const auto most =
      std::ranges::max_element(strangers, {}, [](const auto& one) { return one.second.size(); });
  close_connection(most->second.front());
}

// A driver that has begun nothing yet may find nodes ahead of its journal, which was lost or could not be
// written; it takes over their generation. After it has begun, a node of a later generation belongs to
// another driver.
uint64_t DriverService::shown_generation() const {
  constexpr uint64_t kTakesUpAny = uint64_t{1} << 62;
  return settled_ ? static_cast<uint64_t>(core_->generation()) : kTakesUpAny;
}

void DriverService::on_message(uint64_t number, const std::string& text) {
  Connection& connection = connections_.at(number);
  const std::string where = connection.channel->peer_address();
  try {
    if (connection.client) {
      on_client_message(connection, client_message(text, where));
    } else {
      on_node_message(number, node_message(text, where));
    }
  } catch (const Error& error) {
    log_warning("driver: {} is cut off: {}", where, printable(error.what()));
    drop(number);
  }
}

void DriverService::on_node_message(uint64_t number, NodeMessage message) {
  if (const auto* hello = std::get_if<NodeHello>(&message)) return on_hello(number, *hello);
  Connection& connection = connections_.at(number);
  if (connection.node.empty())
    throw Error({.code = ExitCode::kCommunication, .what = "a node that does not begin with its hello"});
  if (const auto* renewed = std::get_if<KeysRenewed>(&message))
    return connection.channel->renew_receiving(std::to_string(renewed->generation));
  if (const auto* evidence = std::get_if<Evidence>(&message))
    evidence_[evidence->generation][evidence->rank] = *evidence;
  if (const auto* beat = std::get_if<NodeBeat>(&message)) {
    for (const RankBeat& rank : beat->running) slow_.see(connection.node, rank);
  }
  feed(FromNode{connection.node, std::move(message)});
}

// The core decides first whether the node is accepted: a refused node must not replace a connected one of the
// same name.
void DriverService::on_hello(uint64_t number, const NodeHello& hello) {
  Connection& connection = connections_.at(number);
  const std::string name = connection.channel->peer().name;
  if (hello.node != name || name.empty() || name.size() > 64)
    throw Error({.code = ExitCode::kCommunication,
                 .what = "a node with two names",
                 .found = brief(printable(hello.node))});
  if (result_) return;
  const int64_t generation = core_->generation();
  const Commands commands = core_->on(FromNode{name, hello}, now_s());
  greeting_ = number;
  if (std::ranges::none_of(commands,
                           [](const Command& command) { return std::holds_alternative<Refuse>(command); })) {
    for (const auto& [other, before] : connections_) {
      if (other == number || before.node != name) continue;
      close_connection(other);  // the old connection has not noticed yet that it is dead
      break;
    }
    connection.node = name;
    if (is_local(name)) pids_[name] = hello.pid;
    settled_ = settled_ || (!hello.running.empty() && hello.generation == generation);
  }
  apply(commands);
  after_feeding(generation);
}

void DriverService::on_client_message(Connection& connection, const ClientMessage& message) {
  asking_ = connection.channel;
  if (std::holds_alternative<StatusRequest>(message)) {
    asking_->send(status_answer(status_json()));
  } else if (const auto* evict = std::get_if<EvictRequest>(&message)) {
    feed(Evict{evict->target, evict->reason});
  } else if (const auto* drain = std::get_if<DrainRequest>(&message)) {
    feed(Drain{drain->reason});
  }
  asking_.reset();
}

void DriverService::close_connection(uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  found->second.channel->close();
  connections_.erase(found);
}

void DriverService::drop(uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  found->second.channel->close();
  on_closed(number, {.reason = "closed", .was_open = true});
}

void DriverService::on_closed(uint64_t number, const Channel::Closing& closing) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const std::string node = found->second.node;
  if (closing.refused) {
    log_warning("driver: {} was refused: {}", found->second.channel->peer_address(),
                printable(closing.reason));
    // A holder of the secret knows a newer generation: this driver is outdated.
    if (closing.refused->proven && closing.refused->code == ExitCode::kFenced && !result_) {
      result_ = DriverResult{.code = ExitCode::kFenced, .text = closing.reason};
      leave();
    }
  }
  connections_.erase(found);
  if (node.empty() || result_) return;
  feed(ConnectionLost{node});
  if (is_local(node)) loop_.after(kDeath_s, [this, node] { look_for_dead(node); });
}

// For a daemon that an earlier driver started; the ends of this process's own children are reported.
void DriverService::look_for_dead(const std::string& node) {
  if (result_ || local_[node] != 0 || connection_of(node) || node_lives(options_.plan.run, node)) return;
  feed(NodeDied{.node = node, .reachable = true, .text = "its daemon has ended"});
}

// Done with each generation: the holder of an earlier generation's key can neither read nor send any more.
void DriverService::renew_keys() {
  for (auto& [number, connection] : connections_) {
    if (connection.node.empty() || !connection.channel->is_open()) continue;
    connection.channel->send(to_text(DriverMessage{RenewKeys{core_->generation()}}));
    connection.channel->renew_sending(std::to_string(core_->generation()));
  }
}

DriverService::Connection* DriverService::connection_of(const std::string& node) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& one) { return one.second.node == node; });
  return found == connections_.end() ? nullptr : &found->second;
}

void DriverService::send(const std::string& node, const DriverMessage& message) {
  if (Connection* connection = connection_of(node)) connection->channel->send(to_text(message));
}

void DriverService::start_local(const std::string& node) {
  const std::filesystem::path control = control_folder(options_.run_folder);
  const int64_t number = std::stoll(node.substr(node.find('-') + 1));
  std::vector<std::string> words = {options_.program, "node",
                                    "--driver",       (control / "address").string(),
                                    "--secret",       (control / "secret").string(),
                                    "--name",         node,
                                    "--slots",        std::to_string(options_.slots)};
  if (number >= options_.plan.nodes) words.push_back("--spare");
  if (options_.local_nodes > 1) words.push_back("--shares-machine");
  local_[node] = children_.start({.argv = words, .own_session = true}, [this, node](int status) {
    local_[node] = 0;
    pids_.erase(node);
    if (result_) return;
    feed(NodeDied{.node = node, .reachable = true, .text = fmt::format("its daemon ended with {}", status)});
  });
}

}  // namespace longhaul::control
