// The environment of every go command: inherits the user's proxy and checksum settings, and drops variables that change the build.
import { join } from 'node:path'

/** Sources of modules and their verification. */
const inheritedVariables = new Set([
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

export function buildGoEnvironment(toolchain: string, cache: string, env: NodeJS.ProcessEnv): Record<string, string> {
  const inheritedEntries = Object.entries(dropUndefined(env)).filter(([name]) => !name.startsWith('GO') || inheritedVariables.has(name))
  return {
    ...Object.fromEntries(inheritedEntries),
    GOTOOLCHAIN: toolchain,
    // -modcacherw: an ordinary removal of the cache works.
    GOFLAGS: '-mod=readonly -trimpath -buildvcs=false -modcacherw',
    GOWORK: 'off',
    CGO_ENABLED: '0',
    GOMODCACHE: join(cache, 'go', 'mod'),
    GOCACHE: join(cache, 'go', 'build'),
  }
}

export function dropUndefined(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined))
}
