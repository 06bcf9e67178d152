// Serves the console: hashed assets for ever, and index.html for every other path, because the console resolves its routes itself. The
// files are read once at the start, so that a request reads no file and no path can leave the folder.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { encodingFor } from '../response/compress.ts'
import type { Page, PageHandler } from './not-found.ts'

export interface ConsoleFiles {
  readonly isBuilt: boolean
  readonly page: PageHandler
}

/** No inline script or style, no other origin, no frame, no string that becomes a script. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const documentHeaders = {
  'content-security-policy': contentSecurityPolicy,
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}
const assetHeaders = { 'cache-control': 'public, max-age=31536000, immutable', vary: 'accept-encoding' }

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

interface Asset {
  readonly contentType: string
  readonly body: Buffer
  readonly packed: Readonly<Record<'br' | 'gzip', Buffer | undefined>>
}

/** `dir` is the folder that the build wrote; null if the console was not built. */
export function readConsole(dir: string | null): ConsoleFiles {
  if (dir === null) return { isBuilt: false, page: () => notBuilt }
  const index: Page = {
    body: readFileSync(join(dir, 'index.html'), 'utf8'),
    contentType: contentTypes['.html']!,
    headers: documentHeaders,
  }
  const assets = readAssets(dir)
  return {
    isBuilt: true,
    page: (path, acceptEncoding = '') => {
      if (!path.startsWith('/assets/')) return index
      const asset = assets.get(path)
      return asset === undefined ? noSuchAsset : toPage(asset, acceptEncoding)
    },
  }
}

function readAssets(dir: string): ReadonlyMap<string, Asset> {
  const names = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(dir, name)).isFile())
  const known = new Set(names)
  const read = (name: string) => (known.has(name) ? readFileSync(join(dir, name)) : undefined)
  return new Map(
    names.flatMap((name) => {
      const contentType = contentTypes[extname(name)]
      if (contentType === undefined) return []
      const asset = { contentType, body: readFileSync(join(dir, name)), packed: { br: read(`${name}.br`), gzip: read(`${name}.gz`) } }
      return [[`/${name.split(sep).join('/')}`, asset] as const]
    }),
  )
}

function toPage({ contentType, body, packed }: Asset, acceptEncoding: string): Page {
  const encoding = encodingFor(acceptEncoding)
  const small = encoding === null ? undefined : packed[encoding]
  if (encoding === null || small === undefined) return { body, contentType, headers: assetHeaders }
  return { body: small, contentType, headers: { ...assetHeaders, 'content-encoding': encoding } }
}

const noSuchAsset: Page = {
  status: 404,
  body: 'no such file of the console; reload the page',
  contentType: 'text/plain; charset=utf-8',
  headers: { 'cache-control': 'no-store' },
}

const notBuilt: Page = {
  status: 503,
  body: `<!doctype html><html lang="en"><meta charset="utf-8"><title>Brokkr</title><h1>The console is not built</h1>
<p>This broker runs from its sources. Build the console with <code>npm run console</code>, then start the broker again.
The API and <a href="/docs">its description</a> work without it.</p></html>`,
  contentType: contentTypes['.html']!,
  headers: documentHeaders,
}
