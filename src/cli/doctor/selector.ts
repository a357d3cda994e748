import type { TargetChoice } from '../target/choose-target.ts';
import { shellQuote } from './phrases.ts';

/** The options of a command that selects the same target. A PostgreSQL URL is secret, so it stays a variable. */
export function selectorOf(choice: TargetChoice): string {
  if (choice.kind === 'server') return `--server ${shellQuote(choice.label)}`;
  if (!choice.isPostgres) return `--store ${shellQuote(choice.label)}`;
  return `--store "$PERDURE_STORE"${choice.schema === undefined ? '' : ` --schema ${choice.schema}`}`;
}
