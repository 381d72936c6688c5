// Connections over real sockets in one loop: those of strangers, of the silent, of those who do not read, and
// of two who trust each other.
#include "control/wire/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/net/cipher.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() : listening_(Socket::listen({"127.0.0.1", 0})) {
    loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) {
      while (auto socket = listening_.accept()) accepted(std::move(*socket));
    });
  }
  void accepted(Socket socket) {
    driver_ =
        Channel::make(loop_, std::move(socket), Handshake(keys_, own_identity("driver", "", "run", 1), true),
                      {.opened = [this](const Identity& peer) { names_.push_back(peer.name); },
                       .message =
                           [this](std::string_view message) {
                             got_.emplace_back(message);
                             if (echo_) driver_->send(message);
                           },
                       .closed = [this](const Channel::Closing& closing) { driver_closed_ = closing; }},
                      limits_);
  }
  std::shared_ptr<Channel> connect(const std::string& name, std::function<void(Channel&)> opened = {}) {
    auto channel = std::make_shared<std::shared_ptr<Channel>>();
    *channel = Channel::make(loop_, Socket::connect({"127.0.0.1", listening_.port()}),
                             Handshake(node_keys_, own_identity("node", name, "run", 1), false),
                             {.opened =
                                  [channel, opened](const Identity&) {
                                    if (opened) opened(**channel);
                                  },
                              .message = [this](std::string_view message) { answers_.emplace_back(message); },
                              .closed = [this](const Channel::Closing& closing) { node_closed_ = closing; }},
                             limits_);
    return *channel;
  }
  template <class Condition>
  bool until(const Condition& condition, double timeout_s = 10) {
    for (const Stopwatch watch; watch.seconds() < timeout_s && !condition();) loop_.run_for(0.005);
    return condition();
  }

  EventLoop loop_;
  Socket listening_;
  Keys keys_ = {.of_nodes = std::string(32, 's'),
                .signing = std::string(32, 'd'),
                .driver = public_signing_key(std::string(32, 'd'))};
  Keys node_keys_ = {.of_nodes = keys_.of_nodes};
  ChannelLimits limits_;
  bool echo_ = false;
  std::shared_ptr<Channel> driver_;
  std::vector<std::string> names_, got_, answers_;
  std::optional<Channel::Closing> driver_closed_, node_closed_;
};

TEST_F(ChannelTest, MessagesOfAllSizesBothWays) {
  echo_ = true;
  const std::vector<std::string> messages = {"", "beat", std::string(300'000, 'x'),
                                             std::string(kFrameLimit - 32, 'y')};
  const auto node = connect("node-3", [&](Channel& channel) {
    for (const std::string& message : messages) channel.send(message);
  });
  ASSERT_TRUE(until([&] { return answers_.size() == messages.size(); }));
  EXPECT_EQ(got_, messages);
  EXPECT_EQ(answers_, messages);
  EXPECT_THAT(names_, ::testing::ElementsAre("node-3"));
  EXPECT_EQ(node->own_address(), "127.0.0.1");
  node->close();
  ASSERT_TRUE(until([&] { return driver_closed_.has_value(); }));
  EXPECT_TRUE(driver_closed_->was_open);
  EXPECT_FALSE(node_closed_) << "it closed it itself";
}

TEST_F(ChannelTest, AWrongSecretClosesBothEndsWithAReason) {
  node_keys_.of_nodes = std::string(32, 'w');
  const auto node = connect("node-3");
  ASSERT_TRUE(until([&] { return node_closed_ && driver_closed_; }));
  ASSERT_TRUE(node_closed_->refused);
  EXPECT_THAT(node_closed_->reason, HasSubstr("secret"));
  EXPECT_FALSE(node_closed_->was_open);
  EXPECT_TRUE(names_.empty());
}

TEST_F(ChannelTest, StrangersAreCutOff) {
  limits_.handshake_s = 0.2;
  Socket stranger = Socket::connect({"127.0.0.1", listening_.port()});
  ASSERT_TRUE(until([&] { return driver_closed_.has_value(); }));
  EXPECT_THAT(driver_closed_->reason, HasSubstr("no greeting"));
  driver_closed_.reset();
  Socket talker = Socket::connect({"127.0.0.1", listening_.port()});
  size_t written = 0;
  for (const Stopwatch watch; written == 0 && watch.seconds() < 5;)
    talker.write("GET / HTTP/1.1\r\n\r\n", written);
  ASSERT_TRUE(until([&] { return driver_closed_.has_value(); }));
  EXPECT_THAT(driver_closed_->reason, HasSubstr("damaged"));
}

TEST_F(ChannelTest, TheSilentAreCutOff) {
  limits_.silence_s = 0.3;
  limits_.handshake_s = 0.4;
  const auto node = connect("node-3");
  ASSERT_TRUE(until([&] { return driver_closed_.has_value() && node_closed_.has_value(); }));
  EXPECT_TRUE(driver_closed_->was_open);
  EXPECT_THAT(driver_closed_->reason + node_closed_->reason, HasSubstr("nothing was heard"));
}

TEST_F(ChannelTest, WhoDoesNotReadIsCutOff) {
  limits_.unsent_bytes = 4 << 20;
  const auto node = connect("node-3");
  ASSERT_TRUE(until([&] { return driver_ && driver_->is_open() && node->is_open(); }));
  // Both stand in this thread: while the driver sends, the node reads nothing.
  for (int i = 0; i < 40; ++i) driver_->send(std::string(1 << 19, 'x'));
  EXPECT_FALSE(driver_closed_) << "told from the loop, not in the middle of sending";
  ASSERT_TRUE(until([&] { return driver_closed_.has_value(); }));
  EXPECT_THAT(driver_closed_->reason, HasSubstr("does not read"));
  EXPECT_TRUE(driver_closed_->was_open);
}

TEST_F(ChannelTest, WhoTalksTooMuchIsCutOff) {
  limits_.messages_per_second = 100;
  const auto node = connect("node-3", [](Channel& channel) {
    for (int i = 0; i < 300; ++i) channel.send("beat");
  });
  ASSERT_TRUE(until([&] { return driver_closed_.has_value(); }));
  EXPECT_THAT(driver_closed_->reason, HasSubstr("too many"));
  EXPECT_LE(got_.size(), 100u);
}

TEST_F(ChannelTest, NobodyListens) {
  loop_.forget(listening_.descriptor());
  const uint16_t port = listening_.port();
  listening_.close();
  std::optional<Channel::Closing> closing;
  const auto node = Channel::make(loop_, Socket::connect({"127.0.0.1", port}),
                                  Handshake(node_keys_, own_identity("node", "n", "run", 1), false),
                                  {.closed = [&](const Channel::Closing& why) { closing = why; }});
  ASSERT_TRUE(until([&] { return closing.has_value(); }));
  EXPECT_THAT(closing->reason, HasSubstr("refused"));
}

}  // namespace
}  // namespace longhaul::control
