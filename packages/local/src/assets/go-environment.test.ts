import { expect, test } from 'vitest'
import { buildGoEnvironment } from './go-environment.ts'

test('buildGoEnvironment inherits proxy settings and drops variables that change builds', () => {
  const env = {
    HOME: '/h',
    GOPROXY: 'https://p.example',
    GOSUMDB: 'off',
    GOFLAGS: '-mod=vendor',
    GOOS: 'plan9',
    GOTOOLCHAIN: 'path',
    GOWORK: '/x',
  }
  expect(buildGoEnvironment('local', '/cache', env)).toEqual({
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

test('dropUndefined removes variables without a value', () => {
  expect(buildGoEnvironment('local', '/cache', { NOTHING: undefined })).not.toHaveProperty('NOTHING')
})
