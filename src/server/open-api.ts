import { z } from 'zod';
import { errorResponse } from './routes/response-schemas.ts';
import type { RouteShape } from './routes/route.ts';
import { routes } from './routes/table.ts';

type JsonObject = Record<string, unknown>;

/** Creates the OpenAPI 3.1 document from the route table. */
export function makeOpenApi(): JsonObject {
  const schemas: JsonObject = {};
  const paths: Record<string, JsonObject> = {};
  const error = toSchema(errorResponse, 'output', schemas);
  for (const [name, shape] of Object.entries<RouteShape>(routes)) {
    const operations = (paths[shape.path] ??= {});
    operations[shape.method.toLowerCase()] = {
      operationId: name,
      summary: shape.summary,
      ...(shape.role === 'public' ? { security: [] } : { 'x-role': shape.role }),
      parameters: [
        ...parametersOf(shape.params, 'path', schemas),
        ...parametersOf(shape.query, 'query', schemas),
      ],
      ...(shape.body !== undefined && {
        requestBody: {
          required: true,
          content: jsonContent(toSchema(shape.body, 'input', schemas)),
        },
      }),
      responses: {
        200: { description: 'Success.', content: responseContent(shape, schemas) },
        default: { description: 'Error.', content: jsonContent(error) },
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Perdure',
      version: '1',
      description: 'HTTP API of Perdure: instances, tasks, flows, schedules, sessions and jobs.',
    },
    security: [{ token: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function responseContent(shape: RouteShape, schemas: JsonObject): JsonObject {
  if (shape.response === undefined) return { 'text/plain': { schema: { type: 'string' } } };
  const schema = toSchema(shape.response, 'output', schemas);
  return shape.as === 'events' ? { 'text/event-stream': { schema } } : jsonContent(schema);
}

function jsonContent(schema: unknown): JsonObject {
  return { 'application/json': { schema } };
}

function parametersOf(
  object: z.ZodObject | undefined,
  place: 'path' | 'query',
  schemas: JsonObject,
): readonly JsonObject[] {
  if (object === undefined) return [];
  // Numbers and booleans are strings in a URL. The output schema has their real types.
  const { properties = {}, required = [] } = toSchema(object, 'output', schemas) as {
    readonly properties?: JsonObject;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema,
  }));
}

/** Converts a schema to JSON Schema. Moves named schemas to `schemas`. */
function toSchema(schema: z.ZodType, io: 'input' | 'output', schemas: JsonObject): unknown {
  const {
    $schema: _,
    $defs = {},
    ...rest
  } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  for (const [name, definition] of Object.entries($defs)) {
    schemas[name] = withoutIds(relocate(definition));
  }
  const { id } = rest as { readonly id?: string };
  if (id === undefined) return relocate(rest);
  schemas[id] = withoutIds(relocate(rest));
  return { $ref: `#/components/schemas/${id}` };
}

function relocate(schema: unknown): unknown {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/');
  return JSON.parse(text);
}

function withoutIds(schema: unknown): unknown {
  const { id: _, ...rest } = schema as JsonObject;
  return rest;
}
