// The environment of every go command: the user's own proxies and checksum settings stay, what would change the build does not.
import { join } from 'node:path'

/** Where modules come from and how they are checked is the machine's choice. */
const keptSettings = new Set([
  'GOPROXY',
  'GONOPROXY',
  'GOSUMDB',
  'GONOSUMDB',
  'GOPRIVATE',
  'GOINSECURE',
  'GOAUTH',
  'GOVCS',
  'GOENV',
  'GOMAXPROCS',
])

export function goEnvironment(toolchain: string, cache: string, env: NodeJS.ProcessEnv): Record<string, string> {
  const kept = Object.entries(definedOnly(env)).filter(([name]) => !name.startsWith('GO') || keptSettings.has(name))
  return {
    ...Object.fromEntries(kept),
    GOTOOLCHAIN: toolchain,
    // -modcacherw: an ordinary removal of the cache works.
    GOFLAGS: '-mod=readonly -trimpath -buildvcs=false -modcacherw',
    GOWORK: 'off',
    CGO_ENABLED: '0',
    GOMODCACHE: join(cache, 'go', 'mod'),
    GOCACHE: join(cache, 'go', 'build'),
  }
}

export function definedOnly(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined))
}
