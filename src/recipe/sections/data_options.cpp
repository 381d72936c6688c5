#include "recipe/sections/data_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

void declare(OptionSet& set, DataMixPoint& point) {
  set.add("at_tokens", point.at_tokens, "Tokens of the run that have been read by then.")
      .unit("tokens")
      .at_least(0);
  set.add("weights", point.weights, "Share of each source there, one number per source; 0: none of it.")
      .at_least(0)
      .at_most(1e12);
}

std::vector<std::string_view> names_of(LossOn) { return {"all", "parts", "completion"}; }

void declare(OptionSet& set, DataOptions& data) {
  set.add("data.source", data.source,
          "Files or folders of text or JSONL, plain or compressed with zstd, gzip or xz; token files of "
          "Megatron-LM (.idx and .bin) and llm.c (.bin), "
          "with their tokenizer.json as data.tokenizer; \"libtorch\" is the Python source text inside the "
          "LibTorch in use. On the command line a,b is two "
          "sources and '[\"a,b\"]' one with a comma in its path. A run may go on with another path to the "
          "same text.")
      .path()
      .may_change()
      .also_called({"sources", "path", "paths", "dataset", "corpus", "train_data", "files"});
  set.add("data.validation", data.validation,
          "Sources to evaluate on: nothing of data.source is held out then unless data.held_out_percent asks "
          "for it. Documents of text sources that are in them are never trained on; token files are not "
          "compared. A run may go on with another path.")
      .path()
      .may_change()
      .also_called({"validation_data", "val_data", "eval_data", "test_data"});
  set.add("data.weights", data.weights,
          "Share of each source in the blend, one number per source; empty: by size.")
      .above(0)
      .at_most(1e12);
  set.add_tables("data.mix", data.mix,
                 "Instead of data.weights: points through which the shares of the sources go as training "
                 "goes on, [{ at_tokens = 0, weights = [1, 0] }, "
                 "{ at_tokens = 1000000, weights = [1, 1] }]; from one to the next each share moves in a "
                 "straight line, behind the last it stays, and two points "
                 "at the same tokens are a jump.")
      .also_called({"data_mix", "mix_schedule", "curriculum", "data_stages", "weight_schedule"});
  set.add("data.include", data.include,
          "File endings that are read inside folders, such as \".py\"; empty: every text file.")
      .also_called({"extensions", "endings", "glob"});
  set.add("data.jsonl_field", data.jsonl_field,
          "Key that holds the text of a document in JSONL files; of Parquet and Arrow tables the column.")
      .also_called({"text_field", "text_key"});
  set.add("data.loss_on", data.loss_on,
          "Which tokens count in the loss. all; parts: in JSON rows the value of data.jsonl_field is a list "
          "of parts, [{\"text\": …, \"loss\": "
          "false}, {\"text\": …}], where loss is true, false or a weight; completion: a row has a "
          "\"prompt\", which does not count, and a "
          "\"completion\", which does. The end of a document counts as its last part does; other files than "
          "JSON rows count whole.")
      .also_called(
          {"loss_mask", "completion_only", "completion_only_loss", "train_on_inputs", "mask_prompt"});
  set.add("data.skip_bad_lines", data.skip_bad_lines,
          "JSONL lines that do not parse or lack the field are left out and counted; false: the first is an "
          "error that names file and line.")
      .also_called({"ignore_errors", "skip_errors"});
  set.add("data.keep_binary", data.keep_binary,
          "Files that are not text (UTF-16, NUL bytes, many control characters or many bytes that are not "
          "UTF-8) are read too; false: they "
          "are left out and counted.")
      .also_called({"binary", "allow_binary"});
  set.add("data.tokenizer", data.tokenizer,
          "Path of a tokenizer.json; \"train\" trains one on the training part and keeps it in the cache; "
          "\"bytes\" makes every byte a token. "
          "A run may go on with another path to the same tokenizer.")
      .path()
      .may_change();
  set.add("data.vocabulary", data.vocabulary, "Entries of the tokenizer when it is trained here.")
      .unit("entries")
      .at_least(257)
      .at_most(1 << 24);
  set.add("data.end_of_document", data.end_of_document,
          "Text of the tokenizer's token that stands between documents; empty: the first one of a usual name "
          "(docs/formats/tokenizer.md).")
      .also_called({"separator", "eos_token", "eod_token", "end_of_text"});
  set.add("data.stop_tokens", data.stop_tokens,
          "Texts of further tokens that end a text when one is written; an import takes them from "
          "eos_token_id.")
      .may_change()
      .also_called({"eos_tokens", "stop_strings"});
  set.add("data.held_out_percent", data.held_out_percent,
          "Documents held out for evaluation: those whose text has a hash that modulo 100 is below this; of "
          "a source that is one document, "
          "its end. -1: 1, or 0 with data.validation.")
      .unit("percent")
      .at_least(-1)
      .at_most(99)
      .also_called({"validation_percent", "val_split"});
  set.add("data.remove_copies", data.remove_copies, "Of documents with equal bytes only the first is kept.")
      .also_called({"deduplicate", "dedup"});
  set.add("data.document_boundaries", data.document_boundaries,
          "Attention and recurrences never reach from one document into the next in the same sequence.");
  set.add("data.seed", data.seed,
          "Seed of the order in which samples are read; train.seed does not touch it.")
      .at_least(0);
  set.add("data.prefetch", data.prefetch, "Steps whose batches are prepared ahead of the trainer.")
      .unit("steps")
      .at_least(1)
      .at_most(4096)
      .may_change();
  set.add("data.cache", data.cache,
          "Folder for token shards and trained tokenizers; empty: the user's cache folder.")
      .path()
      .also_called({"cache_dir"})
      .may_change();
}

}  // namespace longhaul::recipe
