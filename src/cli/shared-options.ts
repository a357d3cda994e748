import type { Command, Option } from './command.ts';

const help: Option = { name: 'help', short: 'h', summary: 'Show the help of the command' };

const json: Option = { name: 'json', summary: 'Print JSON' };

const store: readonly Option[] = [
  {
    name: 'store',
    value: 'text',
    placeholder: 'path | url',
    summary: 'Store: the path of an SQLite file, or a PostgreSQL URL',
  },
  { name: 'schema', value: 'text', summary: 'Schema of a PostgreSQL store (default: perdure)' },
];

const server: readonly Option[] = [
  { name: 'server', value: 'text', placeholder: 'url', summary: 'URL of a server' },
  {
    name: 'token-file',
    value: 'path',
    placeholder: 'file',
    summary: 'File with the token of the server (default: $PERDURE_TOKEN)',
  },
];

const profile: Option = {
  name: 'profile',
  value: 'text',
  placeholder: 'name',
  summary: 'Profile of perdure.config.json',
};

/** The options that choose a store or a server. */
export function targetOptions({ needs }: Pick<Command, 'needs'>): readonly Option[] {
  if (needs === 'none') return [];
  return needs === 'store' ? [...store, profile] : [...store, ...server, profile];
}

/** The options that every command has. */
export const commonOptions: readonly Option[] = [json, help];

/** All options of a command: its own, those of its target, and those of every command. */
export function optionsOf(command: Command): readonly Option[] {
  return [...command.options, ...targetOptions(command), ...commonOptions];
}
