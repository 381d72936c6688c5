// TaskEntry: what a run must know of one kind of task before there is a Task (train/task.h). A domain
// (src/language) lists its entries, src/cli gives the lists of all domains to run_training() (src/run), and
// nobody between them knows a task by its name.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/run_data.h"
#include "parallel/ranks.h"
#include "recipe/recipe.h"
#include "train/model_plan.h"
#include "train/task.h"

namespace longhaul::train {

// What a task is made from. `data` and `ranks` must outlive it.
struct TaskRequest {
  const recipe::Recipe& recipe;
  const data::RunData& data;
  std::filesystem::path cache;  // for what can be worked out again
  at::Device device;
  const parallel::Ranks& ranks;
  // with other ranks of this machine that read the same rows; null: none does
  std::shared_ptr<data::BatchShare> share{};
  // for files that the task writes beside the checkpoints; empty: it writes none
  std::filesystem::path run_folder{};
};

// Everything that opening the data of a task may ask for, before there is a model.
struct DataRequest {
  const recipe::Recipe& recipe;
  std::filesystem::path cache;  // for what can be worked out again
  // the run folder, whose files a run that goes on finds again; empty: there is none
  std::filesystem::path run{};
  // The folder of the published model, or of the run, from which the run starts; empty: from nothing, or it
  // goes on.
  std::filesystem::path from{};
  bool quiet = false;  // nothing is shown
};

struct TaskEntry {
  std::string_view name;   // as train.task has it
  bool reads_text = true;  // of [data]; a task that does not makes what it learns, and its RunData is empty
  // Opens or makes the data of a task that reads in a way of its own; the processes of a run call it one
  // after another. Null: they are the texts and tokens that open_run_data() reads, or nothing, as reads_text
  // says.
  data::RunData (*open_data)(const DataRequest& request) = nullptr;
  // of the model, before it is made; the recipe must outlive it
  std::unique_ptr<ModelPlan> (*plan)(const recipe::Recipe& recipe);
  std::unique_ptr<Task> (*make)(const TaskRequest& request);  // with untrained parameters
  // Writes what a checkpoint needs beside it to be used, as a tokenizer, into the folder of the run. Null:
  // nothing.
  void (*write_beside)(const data::RunData& data, const std::filesystem::path& run);
  // The command, without the program's name, that uses what was trained: "sample RUN --prompt …". Both words
  // are quoted for a shell.
  std::string (*next_command)(const recipe::Recipe& recipe, const std::string& run,
                              const std::string& prompt);
  // Declares the options of the task, which stand in a section of their own
  // (recipe/sections/outside_options.h). Null: none, or they are part of the recipe.
  recipe::DeclareOutside declare_options = nullptr;
};
using TaskEntries = std::span<const TaskEntry>;

// Makes the options of all entries part of every recipe that is read from now on.
void declare_options(TaskEntries known);

data::RunData open_data(const TaskEntry& task, const DataRequest& request);  // of a task that reads anything

// A TaskEntry::write_beside: tokenizer.json in the folder of the run.
void save_tokenizer(const data::RunData& data, const std::filesystem::path& run);

// Throws kUsage, naming those that are known, where none of the entries has the name.
const TaskEntry& task_named(TaskEntries known, const std::string& name);

}  // namespace longhaul::train
