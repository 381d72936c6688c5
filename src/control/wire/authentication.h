// Authentication: how two processes of one job come to believe each other, and what they say afterwards. Each role has a key of its own (Keys): nodes
// share a secret, operators another, and the driver alone can sign. No key is ever sent. Who listens sends a challenge and half of a key exchange
// (X25519), who connects answers with its own and a proof (HMAC-SHA256 by its role's secret over all that both have said, and all that it claims to be);
// the driver answers with a proof by the same secret and its signature (Ed25519) over the same. So a node can be neither the driver of another one nor an
// operator, though all nodes have one secret. The keys of the two directions come from the exchange and the secret: what is said after that can be
// read by nobody else, and a message that is changed, repeated, left out or moved ends the connection (AES-256-GCM, its number in it).
//
// Neither knows sockets: text in, text out. Source: docs/sources/reliability.md §9.2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace longhaul::control {

inline constexpr size_t kHandshakeLimit = 4096;  // bytes of one of its messages

// What a process knows of the job's keys, all as bytes; empty: it does not have that one. Files of them lie in RUN/control:
//   secret           of nodes, copied to them; and the public half of the driver's key, by which they know it
//   operator-secret  of who may ask for the state of a run and for evictions, likewise
//   driver-key       of the driver alone
struct Keys {
  std::string of_nodes, of_operators;
  std::string signing;  // the driver's own
  std::string
      driver;  // its public half. Who has none (a copy of a secret of before there was one) takes that of the first driver with the secret
};
Keys driver_keys(const std::filesystem::path& control);  // those that are there, else new ones; files of before are brought up to date
Keys node_keys(const std::filesystem::path& secret);
Keys operator_keys(const std::filesystem::path& control);

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
  std::string close(std::string_view message);               // as nobody else can read it
  std::optional<std::string> open(std::string_view sealed);  // nullopt: this is not the next message of who has the key
  void renew(std::string_view label);  // from now on another key, made of this one; who learns it cannot find the old one
 private:
  std::string key_;
  uint64_t number_ = 0;
};

class Handshake {
 public:
  // `listens`: the driver's side. It takes peers of its job alone; who connects refuses a driver of another job or an older generation.
  Handshake(Keys keys, Identity self, bool listens);

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
  const std::string& driver_key() const { return keys_.driver; }  // once established: the one that the driver has signed with
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
  const std::string& secret() const;  // of the role of who connects
  void exchange(std::string_view theirs);

  Keys keys_;
  Identity self_, peer_;
  bool listens_;
  int messages_ = 0;                               // received
  std::string driver_challenge_, peer_challenge_;  // 32 bytes each
  std::string own_exchange_, shared_;              // 32 bytes each: our half of the key exchange, what both halves make
  std::string driver_half_, peer_half_;            // the halves that were sent
};

}  // namespace longhaul::control
