import { expect, test } from 'vitest'
import { goEnvironment } from './go-environment.ts'

test('what the machine says about proxies and checksums stays, what would change the build does not', () => {
  const env = {
    HOME: '/h',
    GOPROXY: 'https://p.example',
    GOSUMDB: 'off',
    GOFLAGS: '-mod=vendor',
    GOOS: 'plan9',
    GOTOOLCHAIN: 'path',
    GOWORK: '/x',
  }
  expect(goEnvironment('local', '/cache', env)).toEqual({
    HOME: '/h',
    GOPROXY: 'https://p.example',
    GOSUMDB: 'off',
    GOTOOLCHAIN: 'local',
    GOFLAGS: '-mod=readonly -trimpath -buildvcs=false -modcacherw',
    GOWORK: 'off',
    CGO_ENABLED: '0',
    GOMODCACHE: '/cache/go/mod',
    GOCACHE: '/cache/go/build',
  })
})

test('a variable without a value is left out', () => {
  expect(goEnvironment('local', '/cache', { NOTHING: undefined })).not.toHaveProperty('NOTHING')
})
