// Generates packages/client/src/routes.ts from the endpoint table: `npm run generate`. The client imports only types of the
// contract, so it needs method and path as text. The compiler and the test beside it fail if the table differs.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'

export const routesFile = join(import.meta.dirname, '..', 'packages', 'client', 'src', 'routes.ts')

const head = `// Method and path of every endpoint. Generated from the endpoint table of the contract by \`npm run generate\`; do not edit.
import type { EndpointName, Endpoints } from '@brokkr/contract/endpoints.ts'

type Routes = { readonly [N in EndpointName]: \`\${Endpoints[N]['method']} \${Endpoints[N]['path']}\` }
/** Endpoints whose answer is a stream of frames. */
export type StreamName = { [N in EndpointName]: Endpoints[N] extends { readonly stream: true } ? N : never }[EndpointName]
`

export function buildRoutes(): string {
  const all = Object.entries<Endpoint>(endpoints)
  const lines = all.map(([name, { method, path }]) => `  ${name}: '${method} ${path}',`)
  const texts = all.flatMap(([name, { text }]) => (text === undefined ? [] : [`${name}: '${text}'`]))
  return [
    head,
    'export const routes = {',
    ...lines,
    '} as const satisfies Routes',
    '',
    '/** Endpoints that answer with text, and its media type. */',
    `export const textRoutes = { ${texts.join(', ')} } as const satisfies Partial<Record<EndpointName, string>>`,
    '',
  ].join('\n')
}

if (import.meta.main) writeFileSync(routesFile, buildRoutes())
