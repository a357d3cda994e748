/** Generates the reference of the HTTP API (docs/api.md) from the table of routes. */
import { makeOpenApi } from '../src/server/open-api.ts';
import type { RouteShape } from '../src/server/routes/route.ts';
import { routes } from '../src/server/routes/table.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly description?: string;
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
  };
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }>
  >;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const intro = `# The HTTP API

All routes of \`perdure/server\`, generated from the schemas that validate the requests by
\`node scripts/check-api.ts --write\`. The server has the same content as an OpenAPI 3.1 document at
\`/v1/openapi.json\`. See [the guide](guides/server.md) for running and securing a server.

Reads are GET requests. All others are POST requests with a JSON body, \`{}\` if it has no fields. Unknown fields are
rejected. Ids in paths are URL-encoded; prefix \`.\`, \`..\` and ids that start with a tilde with another tilde. An
error response has the body \`{ "error": { "code", "message", … }, "requestId" }\`. Urgent routes bypass all queues and
limits.
`;

const groups: Readonly<Record<string, RegExp>> = {
  Instances: /^\/v1\/(instances|bulk\/wait)/,
  'Deletion and pruning': /^\/v1\/(bulk|audit)/,
  Retention: /^\/v1\/retention/,
  Tasks: /^\/v1\/tasks/,
  Flows: /^\/v1\/flow/,
  Schedules: /^\/v1\/schedules/,
  'Sessions and jobs': /^\/v1\/sessions/,
  'Metrics, changes, health': /./,
};

/** Returns the page as Markdown. */
export function apiDocument(): string {
  const document = makeOpenApi() as unknown as Document;
  const left = new Map(Object.entries<RouteShape>(routes));
  const sections = Object.entries(groups).map(([title, pattern]) => {
    const own = [...left].filter(([, { path }]) => pattern.test(path));
    for (const [name] of own) left.delete(name);
    return `## ${title}\n\n${own.map(([, shape]) => describeRoute(shape, document)).join('\n')}`;
  });
  const shared = Object.entries(document.components.schemas)
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([name, schema]) => `### ${name}\n\n${sentence(schema)}${block(schema)}`);
  return [intro, ...sections, `## Shared schemas\n\n${shared.join('\n')}`].join('\n');
}

function describeRoute(shape: RouteShape, { paths }: Document): string {
  const { method, path, role, summary } = shape;
  const operation = paths[path]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`${method} ${path} is not in the document.`);
  const marks = [
    role === 'public' ? 'no token' : `role \`${role}\``,
    ...(shape.urgent === true ? ['urgent'] : []),
    ...(shape.waits === true ? ['long poll'] : []),
    ...(shape.as === 'events' ? ['server-sent events'] : []),
  ];
  const query = operation.parameters.filter((one) => one.in === 'query');
  const body = operation.requestBody?.content['application/json']?.schema;
  const [response] = Object.values(operation.responses['200']?.content ?? {});
  return [
    `### ${method} ${path}\n`,
    `${summary} \`${operation.operationId}\`; ${marks.join(', ')}.\n`,
    ...(query.length > 0 ? [`Query: ${query.map(showParameter).join(', ')}.\n`] : []),
    ...(body === undefined ? [] : [`Body:\n${block(body)}`]),
    `${shape.as === 'events' ? 'Each message' : 'Response'}:\n${block(response?.schema ?? {})}`,
  ].join('\n');
}

function showParameter({ name, required, schema }: Operation['parameters'][number]): string {
  return `\`${name}${required ? '' : '?'}: ${show(schema, 0)}\``;
}

function sentence({ description }: Schema): string {
  return description === undefined ? '' : `${description}\n`;
}

function block(schema: Schema): string {
  return `\n\`\`\`text\n${show(schema, 0)}\n\`\`\`\n`;
}

/** Formats a schema in TypeScript notation. */
function show(schema: Schema, depth: number): string {
  const { $ref, enum: choices, type, items } = schema;
  if ($ref !== undefined) return $ref.replace('#/components/schemas/', '');
  if ('const' in schema) return JSON.stringify(schema.const);
  if (choices !== undefined) return choices.map((one) => JSON.stringify(one)).join(' | ');
  const union = schema.anyOf ?? schema.oneOf;
  if (union !== undefined) return [...new Set(union.map((one) => show(one, depth)))].join(' | ');
  if (type === 'array') {
    const item = show(items ?? {}, depth);
    return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
  }
  if (type === 'object') return showObject(schema, depth);
  if (Array.isArray(type)) return type.join(' | ');
  if (type === 'integer') return 'number';
  return typeof type === 'string' ? type : 'unknown';
}

function showObject(schema: Schema, depth: number): string {
  const { properties = {}, required = [], additionalProperties } = schema;
  const pad = '  '.repeat(depth + 1);
  const lines = Object.entries(properties).map(([name, one]) => {
    const mark = required.includes(name) ? '' : '?';
    const note =
      one.description === undefined || one.$ref !== undefined ? '' : ` // ${one.description}`;
    return `${pad}${name}${mark}: ${show(one, depth + 1)};${note}`;
  });
  if (typeof additionalProperties === 'object') {
    lines.push(`${pad}[name: string]: ${show(additionalProperties, depth + 1)};`);
  }
  return lines.length === 0 ? '{}' : `{\n${lines.join('\n')}\n${'  '.repeat(depth)}}`;
}
