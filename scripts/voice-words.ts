/** Words that hide the actor or replace a term of the field, each with what to write instead. */
interface VoiceWord {
  readonly pattern: RegExp;
  readonly suggestion: string;
}

const VOICE_WORDS: readonly VoiceWord[] = [
  {
    pattern: /\b(?:nobody|somebody|anybody|everybody|whoever|no one|someone|anyone)\b/gi,
    suggestion: 'name the actor: the worker, the client, the caller, another process',
  },
  { pattern: /\bmend(?:s|ed|ing)?\b/gi, suggestion: 'fix, repair, correct' },
  {
    pattern: /\b(?:is|are|was|were|be|been|being) told\b|\btold (?:of|about)\b/gi,
    suggestion: 'is notified, is signaled',
  },
  { pattern: /\bhears? (?:of|about|from)\b|\bis heard\b/gi, suggestion: 'receives, is notified' },
  { pattern: /\bat once\b/gi, suggestion: 'immediately; or: at the same time' },
  {
    pattern: /\bin all\b(?=[.,;:)])/gi,
    suggestion: 'in total, overall',
  },
  { pattern: /\b(?:comes?|came) to rest\b/gi, suggestion: 'becomes idle, settles' },
  { pattern: /\bgo(?:es)? round\b/gi, suggestion: 'runs in a loop' },
  { pattern: /\b(?:takes?|took|taken) away\b/gi, suggestion: 'deletes, removes' },
  { pattern: /\blets? go of\b/gi, suggestion: 'releases' },
  { pattern: /\blooks? again\b/gi, suggestion: 'polls, queries again' },
  { pattern: /\b(?:is|are) spared\b/gi, suggestion: 'continues' },
  { pattern: /\bby oversight\b/gi, suggestion: 'by accident' },
  { pattern: /\bthose who\b|\bthat which\b/gi, suggestion: 'name the subject' },
];

/** A word found in a text, with its line, counted from 1. */
export interface Finding {
  readonly line: number;
  readonly word: string;
  readonly suggestion: string;
}

/** Finds every listed word in a text. */
export function findVoiceWords(text: string): readonly Finding[] {
  return text
    .split('\n')
    .flatMap((content, index) =>
      VOICE_WORDS.flatMap(({ pattern, suggestion }) =>
        Array.from(content.matchAll(pattern), ([word]) => ({ line: index + 1, word, suggestion })),
      ),
    );
}

/** Removes fenced code blocks from a document, keeping its line numbers. */
export function withoutCodeBlocks(document: string): string {
  return document.replaceAll(/^```[^]*?^```/gm, (block) => block.replaceAll(/[^\n]/g, ' '));
}
