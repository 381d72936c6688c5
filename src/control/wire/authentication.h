// Authentication: how two processes of one job prove their identity to each other, and how their messages are
// encrypted. Each node has a key of its own, which is derived from the job's secret and its name; operators
// have another key (Keys), and only the driver can sign. No key is ever sent. The listening side sends a
// challenge and half of a key exchange (X25519). The connecting side answers with its own challenge and half,
// and a proof: the HMAC-SHA256, with its role's secret, of all that both have sent and of the identity that
// it claims. The driver answers with a proof by the same secret and with its signature (Ed25519) of the same
// text. So whoever has the key of one node alone can act neither as another node, nor as its driver, nor as
// an operator. The keys of the two directions are derived from the exchange and the secret. Nobody else can
// read the messages that follow, and a message that is changed, repeated, left out or reordered ends the
// connection (AES-256-GCM with the message's number).
//
// The classes know no sockets: text in, text out. Source: docs/sources/reliability.md §9.2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace longhaul::control {

inline constexpr size_t kHandshakeLimit = 4096;  // bytes of one handshake message

// Keys: the keys of the job that a process has, as bytes; an empty one is missing. Their files are in
// RUN/control:
//   secret           of the job, from which the keys of all nodes are derived; it also holds the public half
//                    of the driver's key. A copy of it makes any node; a file of write_node_key makes only
//                    one
//   operator-secret  of the operators, who may ask for the state of a run and for evictions; likewise
//   driver-key       of the driver alone
struct Keys {
  std::string of_nodes, of_operators;
  std::string own;      // of one node; where it is missing, it is derived from of_nodes
  std::string signing;  // the driver's own private key
  std::string driver;   // public half; a process without it takes that of the first driver with the secret
};
// Reads the existing files, else makes new keys; files of an older format are converted.
Keys driver_keys(const std::filesystem::path& control);
// `secret`: a copy of the job's secret, or the node's own key. Error (64) if it is the key of another node.
Keys node_keys(const std::filesystem::path& secret, const std::string& name);
Keys operator_keys(const std::filesystem::path& control);

std::string node_key(std::string_view secret, std::string_view name);
// Makes the file with which `longhaul node` can be this node and no other.
void write_node_key(const std::filesystem::path& control, const std::string& name,
                    const std::filesystem::path& file);

// Identity: the part that a process has in the job.
struct Identity {
  // "driver", "node" or "operator" (who asks for the state of a run, or for an eviction)
  std::string role;
  std::string name;         // name of the node; empty for the other roles
  std::string job;          // name of the run's job
  uint64_t generation = 0;  // the newest generation that it knows
  std::string version;      // version of the program
};
Identity own_identity(std::string role, std::string name, std::string job, uint64_t generation);

// Seal: the encryption of one direction of an established connection.
class Seal {
 public:
  Seal() = default;
  explicit Seal(std::string key) : key_(std::move(key)) {}
  bool empty() const { return key_.empty(); }   // it has no key yet
  std::string close(std::string_view message);  // encrypts the message
  // decrypts; nullopt: `sealed` is not the next message of the holder of the key.
  std::optional<std::string> open(std::string_view sealed);
  // Derives the next key from the current one; the holder of the new key cannot compute the old one.
  void renew(std::string_view label);

 private:
  std::string key_;
  uint64_t number_ = 0;
};

class Handshake {
 public:
  // `listens`: true on the driver's side. It accepts peers of its own job only. The connecting side refuses a
  // driver of another job or of an older generation.
  Handshake(Keys keys, Identity self, bool listens);

  struct Refusal {
    ExitCode code = ExitCode::kUsage;
    std::string reason;
    bool proven = false;  // true: the other side has proved that it has the secret
  };
  struct Step {
    std::string reply;  // to be sent; empty: nothing
    bool established = false;
    std::optional<Refusal> refused;  // close the connection after the reply
  };
  std::string opening();  // the first message to send; empty: none
  Step on(std::string_view message);

  const Identity& peer() const { return peer_; }
  // Once established: the public key with which the driver has signed.
  const std::string& driver_key() const { return keys_.driver; }
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
  std::string secret() const;  // the key of the connecting side; empty: this side does not have it
  void exchange(std::string_view theirs);

  Keys keys_;
  Identity self_, peer_;
  bool listens_;
  int messages_ = 0;                               // number of received messages
  std::string driver_challenge_, peer_challenge_;  // 32 bytes each
  // 32 bytes each: this side's half of the key exchange, and the shared result.
  std::string own_exchange_, shared_;
  std::string driver_half_, peer_half_;  // the two halves that were sent
};

}  // namespace longhaul::control
