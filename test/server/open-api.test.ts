import { expect, it } from 'vitest';
import { makeOpenApi } from 'perdure/server';
import { readPath, writePath, type RouteShape } from '../../src/server/routes/route.ts';
import { routes } from '../../src/server/routes/table.ts';

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, object>>;
}

const document = makeOpenApi() as {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};

it('the OpenAPI document lists every route and no other', () => {
  expect(document.openapi).toBe('3.1.0');
  const told = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(
      ([method, { operationId }]) => `${operationId} ${method} ${path}`,
    ),
  );
  const all = Object.entries<RouteShape>(routes).map(
    ([name, { method, path }]) => `${name} ${method.toLowerCase()} ${path}`,
  );
  expect(new Set(told)).toEqual(new Set(all));
});

it('every OpenAPI operation describes its path parameters and its request body', () => {
  for (const [name, { path, method, body }] of Object.entries<RouteShape>(routes)) {
    const operation = document.paths[path]?.[method.toLowerCase()];
    const inPath = operation?.parameters.filter((one) => one.in === 'path').map((one) => one.name);
    const wanted = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    expect([name, inPath]).toEqual([name, wanted]);
    expect([name, operation?.requestBody !== undefined]).toEqual([name, body !== undefined]);
    expect(Object.keys(operation?.responses ?? {})).toEqual(['200', 'default']);
  }
});

it('every reference in the OpenAPI document resolves to a component schema', () => {
  const text = JSON.stringify(document);
  const refs = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] ?? '');
  expect(refs.length).toBeGreaterThan(20);
  for (const ref of refs) {
    const [, found] = /^#\/components\/schemas\/(\w+)$/.exec(ref) ?? [];
    expect([ref, found !== undefined && Object.hasOwn(document.components.schemas, found)]).toEqual(
      [ref, true],
    );
  }
  expect(text).not.toContain('$defs');
});

it('no two routes of one method match the same path', () => {
  const shapes = Object.values<RouteShape>(routes);
  for (const [index, one] of shapes.entries()) {
    for (const other of shapes.slice(index + 1)) {
      if (one.method !== other.method) continue;
      const concrete = writePath(one.path, { id: 'x', name: 'x', jobId: 'x' });
      expect([one.path, other.path, readPath(other.path, concrete)]).toEqual([
        one.path,
        other.path,
        undefined,
      ]);
    }
  }
});

it('writePath() and readPath() round-trip every id', () => {
  const ids = [
    '.',
    '..',
    '...',
    '~',
    '~.',
    '~~',
    'a/b',
    'a%2Fb',
    ' ',
    '?',
    '#',
    'ü',
    '😀',
    '%',
    '__proto__',
  ];
  for (const id of ids) {
    const { pathname } = new URL(`http://host${writePath('/v1/instances/{id}/wait', { id })}`);
    expect(readPath('/v1/instances/{id}/wait', pathname)).toEqual({ id });
  }
});
