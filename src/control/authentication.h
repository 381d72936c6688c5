// Authentication: how two processes of one job come to believe each other, and what they say afterwards. Both read the job's secret from a
// file; it is never sent. Who listens sends a challenge, who connects answers with a challenge of its own and a proof (HMAC-SHA256 over both
// challenges and all that it claims to be), and gets a proof back. From the same come two keys, one for each direction; every message after
// that carries a code over its number and its bytes, so that one that is changed, repeated, left out or moved ends the connection.
//
// Neither knows sockets: text in, text out. Source: specs/reliability.md §9.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace longhaul::control {

inline constexpr size_t kHandshakeLimit = 4096;  // bytes of one of its messages

// What a process is in the job.
struct Identity {
  std::string role;         // "driver", "node", "operator" (who asks for the state of a run, or for an eviction)
  std::string name;         // of the node; of the others empty
  std::string job;          // of the run
  uint64_t generation = 0;  // the newest that it knows of
  std::string version;      // of the program
};
Identity own_identity(std::string role, std::string name, std::string job, uint64_t generation);

// One direction of an established connection.
class Seal {
 public:
  Seal() = default;
  explicit Seal(std::string key) : key_(std::move(key)) {}
  bool empty() const { return key_.empty(); }                // there is none yet
  std::string close(std::string_view message);               // message and code
  std::optional<std::string> open(std::string_view sealed);  // nullopt: this is not the next message of who has the key
  void renew(std::string_view label);  // from now on another key, made of this one; who learns it cannot find the old one
 private:
  std::string code(std::string_view message) const;
  std::string key_;
  uint64_t number_ = 0;
};

class Handshake {
 public:
  // `listens`: the driver's side. It takes peers of its job alone; who connects refuses a driver of another job or an older generation.
  Handshake(std::string secret, Identity self, bool listens);

  struct Refusal {
    ExitCode code = ExitCode::kUsage;
    std::string reason;
    bool proven = false;  // the other side has the secret
  };
  struct Step {
    std::string reply;  // to be sent; empty: nothing
    bool established = false;
    std::optional<Refusal> refused;  // to be closed after the reply
  };
  std::string opening();  // what to send at first; empty: nothing
  Step on(std::string_view message);

  const Identity& peer() const { return peer_; }
  Seal sending() const { return Seal(key(listens_ ? "driver" : "peer")); }
  Seal receiving() const { return Seal(key(listens_ ? "peer" : "driver")); }

 private:
  Step on_challenge(std::string_view message);
  Step on_claim(std::string_view message);
  Step on_proof(std::string_view message);
  Step refuse(ExitCode code, std::string reason, bool proven) const;
  std::string prove(std::string_view who) const;
  std::string key(std::string_view direction) const;
  std::string transcript(std::string_view purpose) const;

  std::string secret_;
  Identity self_, peer_;
  bool listens_;
  int messages_ = 0;                               // received
  std::string driver_challenge_, peer_challenge_;  // 32 bytes each
};

}  // namespace longhaul::control
