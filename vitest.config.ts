import { defineConfig } from 'vitest/config'
import { testFiles } from './scripts/test-files.mjs'

// Which servers a test file needs is read from its imports (scripts/test-files.mjs), so that a run of pure files starts none.
const files = testFiles(import.meta.dirname, {
  tier: process.env['BROKKR_TEST_TIER'] ?? 'all',
  without: process.env['BROKKR_TEST_WITHOUT'] ?? '',
})
const shared = { isolate: false, setupFiles: ['./packages/testing/src/die-with-runner.ts'] } as const

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      { extends: true, test: { ...shared, name: 'pure', include: files.pure, testTimeout: 20_000 } },
      {
        extends: true,
        test: {
          ...shared,
          name: 'servers',
          include: files.servers,
          testTimeout: 240_000,
          // The first test that asks for Kubernetes may have to build it (nine minutes on two cores, then cached).
          hookTimeout: 240_000,
          globalSetup: ['./packages/testing/src/global-setup.ts'],
        },
      },
    ],
  },
})
