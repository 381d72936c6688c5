#include "comm/world.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/log_form.h"
#include "base/process/launch.h"
#include "base/process/signals.h"
#include "base/version.h"
#include "comm/c10d/nccl.h"
#include "comm/c10d/own_gpus.h"
#include "comm/gloo/gloo.h"
#include "comm/gloo/gloo_world.h"
#include "comm/gloo/meeting.h"
#include "comm/single.h"
#include "tensor/gpu_identity.h"

namespace longhaul::comm {
namespace {

using std::chrono::milliseconds;

std::string where(const Placement& place) {
  return fmt::format("rank {} of {} ({})", place.rank, place.size, place.engine);
}

[[noreturn]] void refuse(const Placement& place, const Failure& failure) {
  ErrorFields fields = failure.fields;
  fields.where = where(place) + ", at the start";
  throw Error(std::move(fields));
}

std::unique_ptr<Wire> reach_store(const Placement& place, Timeout timeout) {
  const bool serves = place.rank == 0 && place.own_store;
  try {
    return std::make_unique<Wire>(WireOptions{.host = place.host,
                                              .port = place.port,
                                              .serves = serves,
                                              .prefix = "/longhaul/attempt_" + place.attempt,
                                              .timeout = timeout,
                                              .shares_memory = variable("LONGHAUL_SHARED_WIRE") != "off"});
  } catch (const std::exception& error) {
    if (stop_signal() != 0)
      refuse(place, stopped_while_joining(fmt::format("rank 0's store at {}:{}", place.host, place.port),
                                          stop_request_of(place.rank)));
    const std::string text = error.what();
    throw Error(
        {.code = ExitCode::kCommunication,
         .what = serves ? fmt::format("cannot open port {} for the other ranks", place.port)
                        : "rank 0 does not answer",
         .expected = serves ? "a port that no other program uses"
                            : fmt::format("its store at {}:{} within {:.0f} s", place.host, place.port,
                                          std::chrono::duration<double>(timeout).count()),
         .found = text.substr(0, text.find('\n')),
         .where = where(place),
         .hint = serves ? "set MASTER_PORT to another one, the same on all ranks"
                        : "look at what rank 0 said; MASTER_ADDR and MASTER_PORT must lead to its machine"});
  }
}

// Of the file that this process runs; read once.
Identity own_program() {
  static const std::string hash = fmt::format("{:016x}", xxh3(read_text("/proc/self/exe")));
  const BuildVersion& build = build_version();
  return {
      "program", hash, {{"version", build.version}, {"commit", build.commit}, {"compiler", build.compiler}}};
}

// Rank 0 takes the store with it: the others read first, where they are there.
void wait_for_readers(Wire& wire, const Placement& place) {
  try {
    const int64_t here = wire.add("joined", 0);
    if (place.rank != 0) {
      wire.add("read", 1);
    } else if (wire.add("read", 1) < here) {
      for (int turns = 0; turns < 150 && wire.add("read", 0) < here; ++turns)
        wire.wait_for("nothing", milliseconds(20));
    }
  } catch (const std::exception&) {
    // Nobody is left to read.
  }
}

// By what Gloo says of connections that could not be made.
std::string hint_of(const std::string& trouble) {
  const auto says = [&](const char* words) { return trouble.find(words) != std::string::npos; };
  const std::string interfaces =
      "GLOO_SOCKET_IFNAME names the network interface, where a machine has several";
  if (says("Too many open files")) return "let processes open more files: ulimit -n 4096";
  return says("timeout") ? "look at what the other ranks said; " + interfaces : interfaces;
}

}  // namespace

std::unique_ptr<Communicator> join_world(const JoinOptions& options) {
  return join_world(options, find_place());
}

std::unique_ptr<Communicator> join_world(const JoinOptions& options, const Placement& place) {
  set_log_rank(place.rank);
  if (place.size == 1) return std::make_unique<Single>();
  std::unique_ptr<Wire> wire = reach_store(place, options.join_timeout);
  std::vector<Identity> identities = {own_program()};
  identities.insert(identities.end(), options.identity.begin(), options.identity.end());
  try {
    announce(*wire, place.rank, place.size, identities);
    if (const std::optional<Failure> failure = verdict(*wire, place.rank, place.size, options.join_timeout)) {
      wait_for_readers(*wire, place);
      refuse(place, *failure);
    }
    wire->connect(place.rank, place.size);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (stop_signal() != 0)  // and to rank 0 too, which has taken the store with it
      refuse(place, stopped_while_joining(fmt::format("connections to all {} ranks", place.size),
                                          stop_request_of(place.rank)));
    const std::string text = error.what();
    refuse(place, {.fields = {.code = ExitCode::kCommunication,
                              .what = "the ranks cannot be connected",
                              .expected =
                                  fmt::format("a connection from each of {} ranks to each other", place.size),
                              .found = text.substr(0, text.find('\n')),
                              .hint = hint_of(text)}});
  }
  std::unique_ptr<Communicator> world = Gloo::make(
      std::make_shared<GlooWorld>(std::move(wire), place.rank, place.size, options.timeout), place.size);
  if (!options.gpu) return world;
  require_own_gpus(*world, gpu_identity(*options.gpu), *options.gpu);
  return with_nccl(std::move(world), place, *options.gpu, options.timeout);
}

}  // namespace longhaul::comm
