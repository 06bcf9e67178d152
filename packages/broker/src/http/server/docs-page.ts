// A page that lists the operations of the OpenAPI document. Self-contained: no script, no external address, and one style whose hash is
// in the content security policy.
import { createHash } from 'node:crypto'
import type { OpenApi } from './openapi.ts'

export interface DocsPage {
  readonly html: string
  readonly contentSecurityPolicy: string
}

export function buildDocsPage(document: OpenApi): DocsPage {
  const hash = createHash('sha256').update(style).digest('base64')
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toRow(method, path, operation)),
  )
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Brokkr API</title><style>${style}</style></head>
<body><main><h1>Brokkr API</h1>
<p>${operations.length} operations. The whole description, with every schema and error code: <a href="/docs/openapi.json">openapi.json</a>.
Send the PAK with each call: <code>Authorization: Bearer &lt;PAK&gt;</code>.</p>
<table><thead><tr><th scope="col">Method</th><th scope="col">Path</th><th scope="col">Operation</th><th scope="col">What it does</th></tr></thead>
<tbody>
${operations.join('\n')}
</tbody></table></main></body></html>
`
  return {
    html,
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  }
}

const style = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}
code{font:.9em ui-monospace,monospace}`

function toRow(method: string, path: string, operation: { [key: string]: unknown }): string {
  const cells = [
    `<code>${escapeHtml(method.toUpperCase())}</code>`,
    `<code>${escapeHtml(path)}</code>`,
    `<code>${escapeHtml(String(operation['operationId']))}</code>`,
  ]
  return `<tr>${[...cells, escapeHtml(String(operation['summary']))].map((cell) => `<td>${cell}</td>`).join('')}</tr>`
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
