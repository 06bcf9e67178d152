import { expect, test } from 'vitest'
import { askForValues } from './builtin-imports.mjs'

test.each([
  ['import{Agent as g,request}from"node:http";', 'const{Agent:g,request}=process.getBuiltinModule("node:http");'],
  ["import { Agent as g } from 'node:http';", 'const{ Agent:g }=process.getBuiltinModule("node:http");'],
  ['import fs from"node:fs";', 'const fs=process.getBuiltinModule("node:fs");'],
  ['import*as $v from"node:fs/promises";', 'const $v=process.getBuiltinModule("node:fs/promises");'],
  [
    'import net,{connect as c}from"node:net";',
    'const net=process.getBuiltinModule("node:net");const{connect:c}=process.getBuiltinModule("node:net");',
  ],
  [
    'import{a}from"node:os";import{b}from"node:vm";',
    'const{a}=process.getBuiltinModule("node:os");const{b}=process.getBuiltinModule("node:vm");',
  ],
])('%s is imported as a value', (program, expected) => {
  expect(askForValues(program)).toBe(expected)
})

test.each(['import{z}from"zod";', 'import("node:fs");', 'const a=`from"node:fs"`;', 'important.from("node:fs");'])(
  '%s stays as it is',
  (program) => {
    expect(askForValues(program)).toBe(program)
  },
)
