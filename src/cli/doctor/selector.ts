import type { TargetChoice } from '../target/choose-target.ts';
import { shellQuote } from './phrases.ts';

type StoreChoice = Extract<TargetChoice, { readonly kind: 'store' }>;
type ServerChoice = Extract<TargetChoice, { readonly kind: 'server' }>;

/** How the remedies name the target of a call. */
export interface Selectors {
  /** The options of a command that selects the same target: `--store app.db`. */
  readonly selector: string;
  /** The same for commands that need a store. Absent over a server, which does not show its store. */
  readonly storeSelector?: string;
  /** What to do before a remedy with `$PERDURE_STORE`. Absent if the variable has the URL of the store. */
  readonly variableNote?: string;
}

/** Returns how the remedies name a target. A PostgreSQL URL can be secret, so it stays a variable. */
export function selectorsOf(choice: TargetChoice): Selectors {
  if (choice.kind === 'server') return { selector: serverSelector(choice) };
  const selector = storeSelector(choice);
  const note = variableNote(choice);
  return {
    selector,
    storeSelector: selector,
    ...(note !== undefined && { variableNote: note }),
  };
}

function serverSelector({ source, label, givenTokenFile }: ServerChoice): string {
  const server =
    source.kind === 'profile' ? profileOption(source.name) : `--server ${shellQuote(label)}`;
  return givenTokenFile === undefined
    ? server
    : `${server} --token-file ${shellQuote(givenTokenFile)}`;
}

function storeSelector({ source, label, store, schema, ...choice }: StoreChoice): string {
  const option = (name: string | undefined): string =>
    name === undefined ? '' : ` --schema ${shellQuote(name)}`;
  // The profile has its own schema.
  if (source.kind === 'profile') return profileOption(source.name) + option(choice.givenSchema);
  if (!choice.isPostgres) return `--store ${shellQuote(label)}`;
  // A URL without a user, a password and a query is its own label.
  const url = label === store ? shellQuote(store) : '"$PERDURE_STORE"';
  return `--store ${url}${option(schema)}`;
}

function profileOption(name: string): string {
  return `--profile ${shellQuote(name)}`;
}

function variableNote({ source, isPostgres }: StoreChoice): string | undefined {
  if (!isPostgres || source.kind === 'environment') return undefined;
  const where =
    source.kind === 'profile' ? `profile ${JSON.stringify(source.name)}` : 'the option --store';
  return `Set PERDURE_STORE to the URL of ${where} first.`;
}
