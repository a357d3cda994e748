import type { ListFilter } from '../client/reading/instance-list.ts';
import { instanceStatuses, type InstanceStatus } from '../model/status.ts';
import { usage } from './cli-error.ts';
import type { Option, ParsedOptions } from './command.ts';

/** The options that select instances. All conditions must hold. */
export const filterOptions: readonly Option[] = [
  { name: 'status', value: instanceStatuses, placeholder: 'status', many: true, summary: 'Status' },
  {
    name: 'kind',
    value: ['orchestration', 'task', 'flow'],
    summary: 'Kind of definition',
  },
  { name: 'name', value: 'text', many: true, summary: 'Name of the definition' },
  { name: 'definition-version', value: 'text', summary: 'Version of the definition' },
  { name: 'id-prefix', value: 'text', summary: 'Start of the id' },
  {
    name: 'tag',
    value: 'text',
    placeholder: 'key=value',
    many: true,
    summary: 'Tag that the instance has',
  },
  { name: 'parent', value: 'text', placeholder: 'id', summary: 'Children of this instance' },
  { name: 'roots', summary: 'Only instances without a parent' },
  { name: 'created-from', value: 'time', summary: 'Created at this time or later' },
  { name: 'created-before', value: 'time', summary: 'Created before this time' },
  { name: 'ended-from', value: 'time', summary: 'Ended at this time or later' },
  { name: 'ended-before', value: 'time', summary: 'Ended before this time' },
  { name: 'failure-code', value: 'text', summary: 'Code of the failure' },
  { name: 'failure-text', value: 'text', summary: 'Text in the message of the failure' },
  { name: 'blocked', summary: 'Only blocked instances' },
  { name: 'leaked', summary: 'Only instances with a handler that ran past its grace' },
  { name: 'paused', summary: 'Only paused instances' },
  { name: 'unregistered', summary: 'Only instances that wait for code that no live worker has' },
];

/** Whether an option selects instances. */
export function hasFilter(options: ParsedOptions): boolean {
  return filterOptions.some(({ name }) => options.has(name));
}

/** Reads the filter of a call. */
export function readFilter(options: ParsedOptions): ListFilter {
  const flag = (name: string) => (options.flag(name) ? true : undefined);
  const list = (name: string) => {
    const values = options.list(name);
    return values.length === 0 ? undefined : values;
  };
  const given = {
    status: list('status') as readonly InstanceStatus[] | undefined,
    kind: options.text('kind') as ListFilter['kind'],
    name: list('name'),
    version: options.text('definition-version'),
    idPrefix: options.text('id-prefix'),
    parentId: options.text('parent'),
    rootsOnly: flag('roots'),
    createdFrom: options.time('created-from'),
    createdBefore: options.time('created-before'),
    endedFrom: options.time('ended-from'),
    endedBefore: options.time('ended-before'),
    failureCode: options.text('failure-code'),
    failureText: options.text('failure-text'),
    blocked: flag('blocked'),
    leaked: flag('leaked'),
    paused: flag('paused'),
    unregistered: flag('unregistered'),
    tags: readTags(options.list('tag')),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Reads tags of the form `key=value`; `undefined` if there are none. */
export function readTags(tags: readonly string[]): Readonly<Record<string, string>> | undefined {
  if (tags.length === 0) return undefined;
  const pairs = new Map<string, string>();
  for (const tag of tags) {
    const at = tag.indexOf('=');
    const [key, value] = [tag.slice(0, at), tag.slice(at + 1)];
    if (at <= 0) throw usage(`Invalid --tag ${JSON.stringify(tag.slice(0, 80))}: use key=value.`);
    // The last one would win, and select instances without the first.
    if (pairs.has(key) && pairs.get(key) !== value) {
      throw usage(`--tag ${JSON.stringify(key)} was given with two values. Pass one of them.`);
    }
    pairs.set(key, value);
  }
  return Object.fromEntries(pairs);
}
